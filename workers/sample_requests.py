"""Requests that the buttons of the simulator's page file, one for each way that a call can end or is asked about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Sample:
    """A request that a button of the simulator's page files."""

    tool: str
    label: dict[str, str]
    description: dict[str, str]
    arguments: dict[str, Any]
    reason: str
    asks: bool = True
    """Whether somebody is asked, on a card."""
    takes_newest_file: bool = False
    """Whether `{found}` in its arguments is the newest file of whoever presses the button."""


SAMPLES = (
    Sample(
        "send_invoice",
        {"zh": "发送发票", "en": "Send an invoice"},
        {"zh": "一切顺利：同意后执行成功", "en": "All goes well: approved, it is executed"},
        {"to": "ada@example.com", "amount": "120.00"},
        "The order 4711 was delivered yesterday, and the customer asked for the invoice.",
    ),
    Sample(
        "sign_contract",
        {"zh": "签署合同", "en": "Sign a contract"},
        {
            "zh": "三人中有两人同意才执行；申请人本人不能审批",
            "en": "Two of three must approve, and not who asked for it",
        },
        {"customer": "ACME Ltd.", "months": 24},
        "They accepted the offer of last week.",
    ),
    Sample(
        "post_update",
        {"zh": "发布通知", "en": "Post an update"},
        {
            "zh": "只询问一次：再次申请同样的操作时不再询问",
            "en": "Asked once: the same again runs by the remembered decision",
        },
        {"channel": "all-hands", "text": "The lift is working again."},
        "The repair is done.",
    ),
    Sample(
        "read_payroll",
        {"zh": "读取工资表", "en": "Read the payroll"},
        {
            "zh": "执行后结果先待放行：放行之前，智能体看不到",
            "en": "It runs, and its result waits until it is released",
        },
        {"department": "Sales"},
        "To plan next year's budget.",
    ),
    Sample(
        "look_up_rate",
        {"zh": "查询汇率", "en": "Look up a rate"},
        {"zh": "无需审批：直接执行，只留审计记录", "en": "Nobody is asked: it runs at once, and is in the audit"},
        {"currency": "CNY"},
        "To convert the amount of the offer.",
        asks=False,
    ),
    Sample(
        "read_mailbox",
        {"zh": "读取邮箱", "en": "Read a mailbox"},
        {"zh": "工具报错：需要先授权", "en": "The tool says no: it needs to be authorized first"},
        {"folder": "inbox"},
        "To find the reply of the supplier.",
    ),
    Sample(
        "transfer_money",
        {"zh": "转账", "en": "Transfer money"},
        {
            "zh": "连接中断：无法确认是否到账，结果未知",
            "en": "The line breaks: nobody knows if it arrived, so it freezes",
        },
        {"to": "DE02 1203 0000 0000 2020 51", "amount": "4800.00"},
        "Deposit for the new office.",
    ),
    Sample(
        "rebuild_index",
        {"zh": "重建索引", "en": "Rebuild an index"},
        {"zh": "工具一直不返回：超时后结果未知", "en": "It never answers: after its timeout it freezes"},
        {"name": "customers"},
        "Search misses the customers added this week.",
    ),
    Sample(
        "migrate_database",
        {"zh": "迁移数据库", "en": "Migrate a database"},
        {
            "zh": "执行到一半进程被杀：结果未知，不会重新执行",
            "en": "The worker is killed midway: it freezes, and is not begun again",
        },
        {"version": 42},
        "The release 7.3 needs the new columns.",
    ),
    Sample(
        "agent_call",
        {"zh": "智能体自行执行", "en": "The agent runs it"},
        {
            "zh": "只审批：同意后由智能体自行执行，本服务不参与执行",
            "en": "Consent alone: the agent makes the call itself, with its own tool",
        },
        {"name": "run_shell", "arguments": {"command": "rm -r build", "cwd": "/srv/site"}},
        "The old build is in the way.",
    ),
    Sample(
        "delete_customer",
        {"zh": "删除客户", "en": "Delete a customer"},
        {
            "zh": "高风险：任何人都可以审批，需再次确认，密码已隐藏",
            "en": "High risk: anyone may decide, after a second look",
        },
        {"customer": "ACME Ltd.", "password": "correct horse battery staple"},
        "They asked to be forgotten.",
    ),
    Sample(
        "publish_release",
        {"zh": "发布版本", "en": "Publish a release"},
        {"zh": "执行途中提问：回答之后继续执行", "en": "It asks while it runs, and goes on with the answer"},
        {"version": "7.3"},
        "All tests are green.",
    ),
    Sample(
        "archive_file",
        {"zh": "归档文件", "en": "Archive a file"},
        {
            "zh": "先把一个文件拖进与机器人的单聊；同意归档的就是所展示的这份内容",
            "en": "Drop a file into the private chat first; exactly what is shown is archived",
        },
        {"file": "{found}", "folder": "2030"},
        "It belongs to the case that was closed today.",
        takes_newest_file=True,
    ),
    Sample(
        "rebuild",
        {"zh": "运行程序", "en": "Run a program"},
        {
            "zh": "程序运行中三次等待输入：每次都在卡片上回答，只写入一次",
            "en": "A program that waits at three prompts: each is answered on a card, and written once",
        },
        {"target": "customers"},
        "Search misses the customers added this week.",
    ),
)


@dataclass(frozen=True)
class SampleQuestion:
    """A question that a button of the simulator's page asks."""

    label: dict[str, str]
    description: dict[str, str]
    questions: tuple[dict[str, Any], ...]
    reason: str


SAMPLE_QUESTIONS = (
    SampleQuestion(
        {"zh": "提问：单选", "en": "Ask for a choice"},
        {"zh": "点一个按钮即可回答", "en": "Pressing one button answers it"},
        (
            {
                "id": "where",
                "prompt": "Where should release 7.3 go? / 版本 7.3 发布到哪里？",
                "kind": "choice",
                "options": [
                    {"value": "staging", "label": "Staging / 预发布"},
                    {"value": "production", "label": "Production / 生产"},
                ],
            },
        ),
        "The build is ready.",
    ),
    SampleQuestion(
        {"zh": "提问：多选与自填", "en": "Ask several things"},
        {"zh": "多选、自行填写、文字和是否，一并提交", "en": "Several choices, own words, a text and a yes, together"},
        (
            {
                "id": "parts",
                "prompt": "Which parts are affected? / 影响哪些部分？",
                "kind": "choice",
                "options": [{"value": "web"}, {"value": "api"}, {"value": "jobs", "description": "nightly / 夜间任务"}],
                "multi_select": True,
                "allow_input": True,
            },
            {
                "id": "note",
                "prompt": "What should customers read? / 给客户的说明",
                "kind": "text",
                "required": False,
                "max_length": 80,
            },
            {"id": "backup", "prompt": "Is the backup there? / 备份是否已完成？", "kind": "confirm"},
        ),
        "The announcement goes out at six.",
    ),
    SampleQuestion(
        {"zh": "提问：文字", "en": "Ask for a text"},
        {"zh": "用自己的话回答", "en": "It is answered in one's own words"},
        ({"id": "name", "prompt": "What is the project called? / 项目叫什么？", "kind": "text", "max_length": 20},),
        "To name the folder.",
    ),
)

_OF_TYPE: dict[str, Any] = {"string": "…", "integer": 1, "number": 1.5, "boolean": False, "array": [], "object": {}}
_OF_FORMAT = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "email": "ada@example.com",
    "uri": "https://example.com",
}


def an_example(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments as a tool's JSON Schema wants them: those that must be there."""
    properties = schema.get("properties", {})
    return {name: _value(properties[name], schema) for name in schema.get("required", ()) if name in properties}


def _value(property: dict[str, Any], schema: dict[str, Any]) -> Any:
    if "$ref" in property:
        place: Any = schema
        for key in property["$ref"].removeprefix("#/").split("/"):
            place = place.get(key, {})
        return _value(place, schema)
    ways = property.get("anyOf") or property.get("oneOf")
    if ways:  # a decimal is a number or a text: the text is exact
        return _value(next((way for way in ways if "pattern" in way), ways[0]), schema)
    if "const" in property or "enum" in property:
        return property["const"] if "const" in property else property["enum"][0]
    if property.get("type") == "object":
        return {
            name: _value(each, schema)
            for name, each in property.get("properties", {}).items()
            if name in property.get("required", ())
        }
    if "pattern" in property:
        return "1.00"
    return _OF_FORMAT.get(property.get("format", ""), _OF_TYPE.get(property.get("type", ""), "…"))
