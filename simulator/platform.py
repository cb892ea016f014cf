"""The endpoints below `/open-apis`, as they are on the wire.

The codes are those of the documentation. Where it names none, one was chosen: 230071 for a card of another app,
230099 for a patch without `update_multi`, 230027 for a text that mentions everyone.
"""

from __future__ import annotations

import json
import mimetypes
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.datastructures import UploadFile

from simulator import people
from simulator.cards import MOST_BYTES, check_card, require_shared
from simulator.errors import Refused, invalid_parameter, too_often
from simulator.limits import PER_MESSAGE, PER_RECIPIENT
from simulator.people import Chat, Person
from simulator.shapes import mentions_everyone
from simulator.sharing import BOT
from simulator.state import Message, Simulator, compact, file_keys
from simulator.wire import Call, endpoint, require

_MOST_TEXT_BYTES = 150 * 1024
_MOST_FILE_BYTES = 30 * 1024 * 1024
_MOST_IMAGE_BYTES = 10 * 1024 * 1024
_IMAGES = (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")
_LONGEST_UUID = 50
_FILE_TYPES = ("opus", "mp4", "pdf", "doc", "xls", "ppt", "stream")
_MOST_PER_PAGE = 100


# Tokens


def tenant_access_token(call: Call) -> Response:
    asked = call.json()
    settings = call.simulator.settings
    if asked.get("app_id") != settings.app_id:
        return JSONResponse({"code": 10003, "msg": "invalid app_id"})
    if asked.get("app_secret") != settings.app_secret:
        return JSONResponse({"code": 10014, "msg": "app secret invalid"})
    token, expire = call.simulator.token()
    return JSONResponse({"code": 0, "msg": "ok", "tenant_access_token": token, "expire": expire})


# Messages


def send(call: Call) -> dict[str, Any]:
    asked = call.json()
    chat = _recipient(call.simulator, call.query.get("receive_id_type", ""), require(asked, "receive_id"))
    return _deliver(call, chat, asked, None)


def reply(call: Call) -> dict[str, Any]:
    message = _message(call)
    chat = call.simulator.chat(message.chat_id)
    assert chat is not None
    return _deliver(call, chat, call.json(), message)


def _deliver(call: Call, chat: Chat, asked: dict[str, Any], reply_to: Message | None) -> dict[str, Any]:
    simulator = call.simulator
    uuid = asked.get("uuid") or None
    if uuid is not None and (not isinstance(uuid, str) or len(uuid) > _LONGEST_UUID):
        raise invalid_parameter(f"uuid must have at most {_LONGEST_UUID} characters")
    if uuid is not None and (sent := simulator.sent_as(uuid)):
        return _described(simulator, sent)
    msg_type = require(asked, "msg_type")
    content = _content(simulator, msg_type, require(asked, "content"), len(call.body))
    if simulator.settings.limits:
        wait = simulator.limits.wait(f"send {chat.chat_id}", PER_RECIPIENT, simulator.clock())
        if wait:
            raise too_often(wait)
    message = simulator.add_message(chat, msg_type, content, reply_to=reply_to, uuid=uuid)
    return _described(simulator, message)


def patch(call: Call) -> dict[str, Any]:
    simulator = call.simulator
    message = _message(call)
    if message.msg_type != "interactive":
        raise invalid_parameter("This message is NOT a card.")
    if message.sender != simulator.settings.app_id:
        raise Refused(230071, "The operator is not the sender of the message.")
    if simulator.is_past_changing(message):
        raise Refused(230031, "The message was sent too long ago to be updated.")
    card = _content(simulator, "interactive", require(call.json(), "content"), len(call.body))
    require_shared(message.content)
    require_shared(card)
    if simulator.settings.limits:
        wait = simulator.limits.wait(f"patch {message.message_id}", PER_MESSAGE, simulator.clock())
        if wait:
            raise too_often(wait)
    simulator.revise(message, card)
    return {}


def get_message(call: Call) -> dict[str, Any]:
    message = _message(call)
    chat = call.simulator.chat(message.chat_id)
    if chat is None or not chat.has_bot:
        raise Refused(230002, "Bot/User can NOT be out of the chat.")
    return {"items": [_described(call.simulator, message)]}


def _recipient(simulator: Simulator, kind: str, identifier: str) -> Chat:
    if kind in people.ID_KINDS:
        person = people.find(kind, identifier)
        if person is None:
            raise invalid_parameter("invalid receive_id")
        return simulator.private_chat(person)
    if kind != "chat_id":
        raise Refused(99992402, "field validation failed: receive_id_type")
    chat = simulator.chat(identifier)
    if chat is None:
        raise invalid_parameter("invalid receive_id")
    if not chat.has_bot:
        raise Refused(230002, "Bot/User can NOT be out of the chat.")
    return chat


def _message(call: Call) -> Message:
    message = call.simulator.messages.get(call.path("message_id"))
    if message is None:
        raise invalid_parameter("invalid message_id")
    return message


def _content(simulator: Simulator, msg_type: str, said: str, request_bytes: int) -> dict[str, Any]:
    """What a message says, if the platform takes it. The limits are on the request's body, as documented."""
    if request_bytes > (_MOST_TEXT_BYTES if msg_type == "text" else MOST_BYTES):
        raise Refused(230025, "The length of the message content reaches its limit.")
    try:
        content = json.loads(said)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise invalid_parameter("content is not a JSON object")
    if msg_type == "interactive":
        return check_card(content)
    if msg_type == "text":
        if mentions_everyone(require(content, "text")):
            raise Refused(230027, "Lack of necessary permissions, ext=the bot may not mention everyone")
    elif msg_type == "file":
        if require(content, "file_key") not in simulator.files:
            raise invalid_parameter("invalid file_key")
    elif msg_type != "post":
        raise invalid_parameter(f"the simulator knows no msg_type {msg_type}")
    return content


def _described(simulator: Simulator, message: Message) -> dict[str, Any]:
    """A message as the API returns it."""
    described = {
        "message_id": message.message_id,
        "msg_type": message.msg_type,
        "create_time": str(message.created_at),
        "update_time": str(message.updated_at),
        "deleted": False,
        "updated": message.revision > 0,
        "chat_id": message.chat_id,
        "sender": {
            "id": message.sender,
            "id_type": "app_id" if message.sender == simulator.settings.app_id else "open_id",
            "sender_type": "app" if message.sender == simulator.settings.app_id else "user",
            "tenant_key": simulator.settings.tenant_key,
        },
        "body": {"content": compact(_retold(message))},
    }
    if message.reply_to is not None:
        described |= {"root_id": message.root, "parent_id": message.reply_to}
    return described


def _retold(message: Message) -> dict[str, Any]:
    """The API does not give a JSON 2.0 card back: readers see its title and an invitation to upgrade."""
    if message.msg_type != "interactive":
        return message.content
    title = message.content.get("header", {}).get("title", {}).get("content", "")
    notice = [[{"tag": "text", "text": "请升级至最新版本客户端，以查看内容"}]]
    return {"title": title, "elements": notice}


# Files


async def upload(call: Call) -> dict[str, Any]:
    form = await call.request.form()
    file_type, file_name, file = form.get("file_type"), form.get("file_name"), form.get("file")
    if file_type not in _FILE_TYPES or not isinstance(file_name, str) or not isinstance(file, UploadFile):
        raise Refused(234001, "Invalid request param.")
    content = await file.read()
    if not content:
        raise Refused(234010, "File's size can't be 0.")
    if len(content) > _MOST_FILE_BYTES:
        raise Refused(234006, "The file size exceed the max value.")
    return {"file_key": call.simulator.add_file(file_name, str(file_type), content).file_key}


async def upload_image(call: Call) -> dict[str, Any]:
    form = await call.request.form()
    image = form.get("image")
    if form.get("image_type") != "message" or not isinstance(image, UploadFile):
        raise Refused(234001, "Invalid request param.")
    content = await image.read()
    if not content:
        raise Refused(234010, "File's size can't be 0.")
    if len(content) > _MOST_IMAGE_BYTES:
        raise Refused(234006, "The file size exceed the max value.")
    if not content.startswith(_IMAGES):
        raise Refused(234011, "Can't recognize the image format.")
    return {"image_key": call.simulator.add_file(image.filename or "image", "image", content).file_key}


def bot(call: Call) -> Response:
    told = {"activate_status": 2, "app_name": "Assent", "open_id": BOT}
    return JSONResponse({"code": 0, "msg": "ok", "bot": told})


def download(call: Call) -> Response:
    if call.query.get("type") not in ("file", "image"):
        raise Refused(234001, "Invalid request param.")
    message = _message(call)
    file = call.simulator.files.get(call.path("file_key"))
    if file is None or file.file_key not in file_keys(message.content):
        raise Refused(234003, "File not in msg.")
    media_type = mimetypes.guess_type(file.file_name)[0] or "application/octet-stream"
    named = f"attachment; filename*=UTF-8''{quote(file.file_name)}"
    return Response(file.content, media_type=media_type, headers={"content-disposition": named})


# People and chats


def user(call: Call) -> dict[str, Any]:
    person = people.find(_id_kind(call, "user_id_type"), call.path("user_id"))
    if person is None:
        raise Refused(41012, "user id invalid error")
    return {"user": _person(person)}


def members(call: Call) -> dict[str, Any]:
    kind = _id_kind(call, "member_id_type")
    chat = _chat(call)
    size = min(_whole_number(call.query.get("page_size", "20")), _MOST_PER_PAGE)
    start = _whole_number(call.query.get("page_token") or "0")
    inside = [person for person in people.PEOPLE if person.open_id in chat.members]
    page = inside[start : start + size]
    more = start + size < len(inside)
    tenant_key = call.simulator.settings.tenant_key
    items = [
        {"member_id_type": kind, "member_id": person.id(kind), "name": person.name, "tenant_key": tenant_key}
        for person in page
    ]
    page_token = str(start + size) if more else ""
    return {"items": items, "page_token": page_token, "has_more": more, "member_total": len(inside)}


def bot_information(call: Call) -> Response:
    """Unlike the others, this answer has what it tells beside the code, not under `data`."""
    bot = {"activate_status": 2, "app_name": "Assent", "avatar_url": "", "ip_white_list": [], "open_id": "ou_bot"}
    return JSONResponse({"code": 0, "msg": "ok", "bot": bot})


def tenant_information(call: Call) -> dict[str, Any]:
    return {"tenant": {"name": "示例公司", "display_id": "F1", "tenant_key": call.simulator.settings.tenant_key}}


def granted_scopes(_: Call) -> dict[str, Any]:
    """Every scope that the platform's documentation names for what is simulated here."""
    return {"scopes": [{"scope_name": name, "grant_status": 1, "scope_type": "tenant"} for name in SCOPES]}


def chat_information(call: Call) -> dict[str, Any]:
    chat = _chat(call)
    return {
        "avatar": "",
        "name": chat.name if chat.kind == "group" else "",
        "description": "",
        "owner_id": chat.members[0],
        "owner_id_type": "open_id",
        "chat_mode": chat.kind,
        "chat_type": "private",
        "external": False,
        "tenant_key": call.simulator.settings.tenant_key,
        "user_count": str(len(chat.members)),
        "bot_count": "1",
        "chat_status": "normal",
    }


def _chat(call: Call) -> Chat:
    chat = call.simulator.chat(call.path("chat_id"))
    if chat is None:
        raise Refused(232006, "Your request specifies a chat_id which is invalid.")
    if not chat.has_bot:
        raise Refused(232011, "Operator can NOT be out of the chat.")
    return chat


def _person(person: Person) -> dict[str, Any]:
    return {
        "open_id": person.open_id,
        "union_id": person.union_id,
        "user_id": person.user_id,
        "name": person.name,
        "en_name": person.en_name,
        "status": {"is_frozen": False, "is_resigned": False, "is_activated": True, "is_exited": False},
    }


def _id_kind(call: Call, parameter: str) -> str:
    kind = call.query.get(parameter, "open_id")
    if kind not in people.ID_KINDS:
        raise Refused(99992402, f"field validation failed: {parameter}")
    return kind


def _whole_number(said: str) -> int:
    if not said.isdigit():
        raise Refused(99992402, "field validation failed: page_size, page_token")
    return int(said)


SCOPES = (
    *("im:message", "im:message:send_as_bot", "im:resource", "im:chat.members:read", "im:chat:readonly"),
    *("im:message.p2p_msg:readonly", "contact:contact.base:readonly", "contact:user.base:readonly"),
)

router = APIRouter()
_im = "/im/v1/messages"
for _method, _path, _endpoint in (
    ("POST", "/auth/v3/tenant_access_token/internal", endpoint("token", tenant_access_token, public=True)),
    ("POST", _im, endpoint("send", send)),
    ("POST", f"{_im}/{{message_id}}/reply", endpoint("reply", reply)),
    ("PATCH", f"{_im}/{{message_id}}", endpoint("patch", patch)),
    ("GET", f"{_im}/{{message_id}}", endpoint("message", get_message)),
    ("GET", f"{_im}/{{message_id}}/resources/{{file_key}}", endpoint("download", download)),
    ("POST", "/im/v1/files", endpoint("upload", upload)),
    ("POST", "/im/v1/images", endpoint("images", upload_image)),
    ("GET", "/bot/v3/info", endpoint("bot", bot)),
    ("GET", "/contact/v3/users/{user_id}", endpoint("users", user)),
    ("GET", "/bot/v3/info", endpoint("bot", bot_information)),
    ("GET", "/tenant/v2/tenant/query", endpoint("tenant", tenant_information)),
    ("GET", "/application/v6/scopes", endpoint("scopes", granted_scopes)),
    ("GET", "/im/v1/chats/{chat_id}/members", endpoint("members", members)),
    ("GET", "/im/v1/chats/{chat_id}", endpoint("chat", chat_information)),
):
    router.add_route(f"/open-apis{_path}", _endpoint, [_method])


async def _not_found(_: Request) -> Response:
    return PlainTextResponse("404 page not found", 404)


router.add_route("/open-apis/{rest:path}", _not_found, ["GET", "POST", "PUT", "PATCH", "DELETE"])
