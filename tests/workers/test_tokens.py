"""Tokens: which agents come in, and how far each reaches."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from assent import Identity
from assent.payload import sha256
from tests.support.web import write_tokens
from workers.tokens import Agent, Tokens


def agent(tenant_key: str = "", **rights: Any) -> Agent:
    return Agent(name="bot", sha256="0" * 64, tenant_key=tenant_key, **rights)


def test_a_token_is_found_by_its_hash_alone(tmp_path: Path) -> None:
    tokens = Tokens.load(write_tokens(tmp_path))
    found = tokens.find("secret-agent")
    assert found is not None
    assert found.name == "agent"
    for other in ("", "secret-agen", "secret-agent ", found.sha256, "\udcff"):
        assert tokens.find(other) is None


def test_a_token_reaches_nowhere_unless_it_is_said() -> None:
    bare = agent()
    assert not bare.may_ask_for("mark")
    assert not bare.may_act_for(Identity(open_id="ou_1"))
    assert not bare.may_decide
    assert not bare.may_be_called_back_at("https://agent.example/")


def test_tools_are_patterns() -> None:
    bot = agent(tools=("send_*", "read"))
    assert [name for name in ("send_mail", "read", "reader", "resend_mail", "SEND_mail") if bot.may_ask_for(name)] == [
        "send_mail",
        "read",
    ]


def test_every_id_of_a_person_must_be_one_that_the_token_names() -> None:
    bot = agent(on_behalf_of=("open_id:ou_1,union_id:on_1", "user_id:u_2"))
    assert bot.may_act_for(Identity(open_id="ou_1"))
    assert bot.may_act_for(Identity(open_id="ou_1", union_id="on_1"))
    assert bot.may_act_for(Identity(user_id="u_2"))
    assert not bot.may_act_for(Identity(open_id="ou_1", union_id="on_boss"))
    assert not bot.may_act_for(Identity(open_id="ou_1", user_id="u_2")), "ids of two people are nobody's"
    assert not bot.may_act_for(Identity(user_id="ou_1"))


def test_a_person_of_another_tenant_is_another_person() -> None:
    bot = agent("tenant_1", on_behalf_of=("open_id:ou_1",))
    assert bot.may_act_for(Identity(open_id="ou_1"))
    assert bot.may_act_for(Identity(open_id="ou_1", tenant_key="tenant_1"))
    assert not bot.may_act_for(Identity(open_id="ou_1", tenant_key="tenant_2"))
    assert not bot.may_see("mark", Identity(open_id="ou_1"))


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://agent.example/hooks/a", True),
        ("https://agent.example/hooks/", True),
        ("https://agent.example/hooks?x=1", False),
        ("https://agent.example/hooksy", False),
        ("https://agent.example.evil.example/hooks/a", False),
        ("https://agent.example:8443/hooks/a", False),
        ("http://agent.example/hooks/a", False),
        ("https://agent.example/hooks/../admin", False),
        ("https://agent.example/hooks/%2e%2e/admin", False),
        ("https://agent.example/hooks/..\\admin", False),
        ("https://evil.example\\@agent.example/hooks/a", False),
        ("https://agent.example/hooks/\tx", False),
        ("https://agent.example/hooks/..;/admin", False),
        ("https://agent.example/hooks/..;jsessionid=1/admin", False),
        ("https://agent.example/hooks/.;x/..;y/admin", False),
        ("https://agent.example/hooks/%252e%252e/admin", False),
        ("https://agent.example/hooks/%25252e%25252e/admin", False),
        ("https://agent.example/hooks/%2e%2e%3b/admin", False),
        ("https://agent.example/hooks/..%2fadmin", False),
        ("https://agent.example/hooks/..%252fadmin", False),
        ("https://agent.example/hooks/..%5cadmin", False),
        ("https://agent.example/hooks/..%00/admin", False),
        ("https://agent.example/hooks/..%20/admin", False),
        ("https://agent.example/hooks/.../admin", False),
        ("https://agent.example/hooks/%c0%ae%c0%ae/admin", False),
        ("https://agent.example/hooks/%ef%bc%8e%ef%bc%8e/admin", False),
        ("https://agent.example/hooks/%e2%80%a5/admin", False),
        ("https://agent.example/hooks/a..b/v1.2;x=1", True),
        ("https://agent.example/hooks/caf%C3%A9%20au%20lait", True),
        ("https://agent.example/hooks/a?next=../b", True),
        ("https://open.example", True),
        ("https://open.example/anything", True),
    ],
)
def test_callbacks_stay_under_what_is_named(url: str, allowed: bool) -> None:
    bot = agent(callbacks=("https://agent.example/hooks/", "https://open.example"))
    assert bot.may_be_called_back_at(url) is allowed


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no"),
        ("[[token]", "line 1"),
        ("tokens = 1", "tokens"),
        ("token = 1", "[[token]]"),
        ('[[token]]\nname = "a"', "number 1 ('a'): sha256"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\ntoolz = []', "toolz: not a key"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\ntenant_key = "x"', "tenant_key: not a key"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\nmay_decide = "no"', "may_decide"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\non_behalf_of = ["ou_1"]', "not an identity"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\ncallbacks = ["http://agent.example/"]', "https"),
        ('[[token]]\nname = "a"\nsha256 = "secret-in-the-clear"', "sha256"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\n[[token]]\nname = "a"\nsha256 = "{"1" * 64}"', "name 'a'"),
        (f'[[token]]\nname = "a"\nsha256 = "{"0" * 64}"\n[[token]]\nname = "b"\nsha256 = "{"0" * 64}"', "two tokens"),
    ],
)
def test_a_file_with_a_mistake_is_refused_and_the_place_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "tokens.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"tokens\.toml") as refused:
        Tokens.load(path)
    assert said in str(refused.value)
    assert "secret-in-the-clear" not in str(refused.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Tokens.load(tmp_path / "none.toml")


def test_the_command_shows_a_token_once_and_prints_what_the_file_needs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "assent", "token", "助手", "--tools", "send_*", "--tools", "read"]
    done = subprocess.run(
        [
            *command,
            "--on-behalf-of",
            "open_id:ou_1",
            "--may-decide",
            "--may-settle",
            "--may-bridge",
            "--callback",
            "https://a.example/h/",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    token = next(line.strip() for line in done.stderr.splitlines() if line.startswith("    "))
    assert token not in done.stdout
    entry = tomllib.loads(done.stdout)["token"][0]
    assert entry == {
        "name": "助手",
        "principal": "助手",
        "sha256": sha256(token),
        "tools": ["send_*", "read"],
        "on_behalf_of": ["open_id:ou_1"],
        "may_decide": True,
        "may_settle": True,
        "may_bridge": True,
        "may_read_policy": False,
        "may_list_files": False,
        "chats": ["*"],
        "callbacks": ["https://a.example/h/"],
    }
    path = tmp_path / "tokens.toml"
    path.write_text(done.stdout)
    found = Tokens.load(path).find(token)
    assert found is not None
    assert found.name == "助手"
