"""Prompts: the text that an encoder expects before a query or a document.

Folders of sentence-transformers state them by name in config_sentence_transformers.json, and a
saved encoder keeps all of them there, so that other libraries apply them as well.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tokenizers import Tokenizer

from sentemb_core.encoder.folder_files import first_folder, read_json
from sentemb_core.errors import BadDataError, UsageError
from sentemb_core.types import Json, Role

log = logging.getLogger(__name__)

STATED = "config_sentence_transformers.json"

OF_DOCUMENTS = ("document", "passage", "corpus")
"""Names of the prompt of documents, as `SentenceTransformer.encode_document` looks for them."""

NO_PROMPT = "none"
"""As an option: the encoder reads texts without the prompt that its folder states."""

NAME = re.compile(r"[\w.-]+")
"""An option of this form is the name of a prompt; the text of a prompt has a blank or a colon."""


@dataclass(frozen=True)
class Prompts:
    """Prompts by name, `query` and `document` among them, and the name of the default one."""

    by_name: Mapping[str, str] = field(default_factory=dict[str, str])
    default: str | None = None

    def before(self, role: Role) -> str:
        """The prompt before a text of this role; empty if there is none."""
        name = {"text": self.default, "sentence": "document"}.get(role, role)
        return self.by_name.get(name or "", "")

    def length(self, role: Role, tokenizer: Tokenizer) -> int:
        """Number of tokens of the prompt before a text of this role."""
        prompt = self.before(role)
        return len(tokenizer.encode(prompt, add_special_tokens=False)) if prompt else 0

    def __bool__(self) -> bool:
        return any(self.by_name.values())

    def stated(self) -> Json:
        """The entries of config_sentence_transformers.json; none without a prompt."""
        if not self:
            return {}
        default = {"default_prompt_name": self.default} if self.default else {}
        return {"prompts": dict(self.by_name), **default}

    def replaced(self, *, query: str | None, document: str | None) -> "Prompts":
        """Return the prompts with those of options: a text, a name of a prompt, or `none`.

        Raises:
            UsageError: E001, for an empty prompt, or a name that no prompt has.
        """
        given = {"query": query, "document": document}
        own = {role: self._text_of(role, text) for role, text in given.items() if text is not None}
        return Prompts({**self.by_name, **own}, self.default)

    def _text_of(self, role: str, option: str) -> str:
        if option == NO_PROMPT:
            return ""
        if option in self.by_name:
            return self.by_name[option]
        if option.strip() and not NAME.fullmatch(option):
            return option
        known = ", ".join(map(repr, self.by_name)) or "none"
        found = f"no prompt {option!r}" if option.strip() else "an empty text"
        raise UsageError(
            f"The prompt of a {role} is a text with a blank or a colon, such as 'query: ', the "
            f"name of a prompt of the encoder's folder (it has: {known}), or {NO_PROMPT!r}. Found "
            f"{found}. Name another prompt, or leave the option out."
        )


def stated_prompts(folder: Path) -> Prompts:
    """Return the prompts that a folder states.

    `document` is also stated as `passage` or `corpus`. A default prompt stands before every text
    if the folder has neither a prompt of queries nor one of documents.

    Raises:
        UsageError: E001, the default is the name of no prompt.
        BadDataError: E100, a prompt is no text.
    """
    stated = read_json(folder / STATED)
    listed, default = stated.get("prompts") or {}, stated.get("default_prompt_name")
    if not isinstance(listed, dict) or not all(
        isinstance(text, str | None) for text in listed.values()
    ):
        raise BadDataError(
            f"Prompts are texts by name; those in {folder / STATED} are not: {listed}. Repair the "
            "file, or copy the encoder again."
        )
    by_name: dict[str, str] = {name: text or "" for name, text in listed.items()}
    if default is not None and default not in by_name:
        raise UsageError(
            f"The default prompt must be one of the folder's prompts; {folder / STATED} has "
            f"{', '.join(map(repr, by_name)) or 'none'}, and its default_prompt_name is "
            f"{default!r}. Correct the name, or remove it."
        )
    of_documents = [by_name[name] for name in OF_DOCUMENTS if by_name.get(name)]
    if of_documents:
        by_name["document"] = of_documents[0]
    elif default and not {"query", *OF_DOCUMENTS} & by_name.keys():
        by_name |= {"query": by_name[default], "document": by_name[default]}
    return Prompts(by_name, default)


class Family(NamedTuple):
    """Encoders that were trained with prompts: how to recognise them, and the prompts."""

    label: str
    name: str
    query: str
    document: str
    model_type: str = ""


_PASSAGES = "Represent this sentence for searching relevant passages: "
_TASK = "Given a web search query, retrieve relevant passages that answer the query"
FAMILIES = (
    Family("E5-instruct", r"e5-.*instruct", f"Instruct: {_TASK}\nQuery: ", NO_PROMPT),
    Family("E5", r"e5-", "query: ", "passage: "),
    Family("BGE", r"bge-(small|base|large)-en", _PASSAGES, NO_PROMPT),
    Family(
        "BGE", r"bge-(small|base|large)-zh", "为这个句子生成表示以用于检索相关文章\uff1a", NO_PROMPT
    ),
    Family("Arctic 2", r"arctic-embed-[ml]-v2", "query: ", NO_PROMPT),
    Family("Arctic", r"arctic-embed", _PASSAGES, NO_PROMPT),
    Family("Nomic", r"nomic-embed-text", "search_query: ", "search_document: ", "nomic_bert"),
    Family("Qwen3-Embedding", r"qwen3-embedding", f"Instruct: {_TASK}\nQuery:", NO_PROMPT),
    Family(
        "EmbeddingGemma",
        r"embeddinggemma",
        "task: search result | query: ",
        "title: none | text: ",
        "gemma3_text",
    ),
)
"""By a part of the name, in lower case; the prompts for retrieval are those of the model cards."""


def family_of(name: str, config: Mapping[str, object]) -> Family | None:
    """Return the family of an encoder by its name or by the config.json of its transformer."""
    names = [Path(str(one)).name.lower() for one in (name, config.get("_name_or_path", ""))]
    for family in FAMILIES:
        known = family.model_type and family.model_type == config.get("model_type")
        if known or any(re.search(rf"(?<![a-z0-9]){family.name}", one) for one in names):
            return family
    return None


def warn_without_prompts(name: str, folder: Path, prompts: Prompts) -> None:
    """Warn if the encoder is of a family that was trained with prompts, and has none of queries."""
    family = family_of(name, read_json(first_folder(folder) / "config.json"))
    if family and not prompts.before("query"):
        query, document = map(_quoted, (family.query, family.document))
        log.warning(
            "%s encoders are trained with prompts, and %s has none of queries: its vectors are "
            "worse without. For a run: --set encoder.query_prompt=%s --set "
            "encoder.document_prompt=%s. For other commands, export a folder with prompts: sentemb "
            "export %s FOLDER --query-prompt %s --document-prompt %s.",
            *(family.label, name, query, document, name, query, document),
        )


def _quoted(prompt: str) -> str:
    """A prompt as an argument of a shell; bash and zsh read $'...' with line ends."""
    return f"$'{prompt}'".replace("\n", "\\n") if "\n" in prompt else f"'{prompt}'"
