"""What docs/approvers.md says of permissions and approvers is what the code says."""

from __future__ import annotations

from datetime import timedelta

from assent import Approvers, Permission, Tool, tool
from assent.contracts.permission import Fallback
from assent.contracts.plan import Plan
from assent.settings import Settings
from assent.tools.definition import Registry
from assent.types import Execution, ResultReview
from tests.support.documents import APPROVERS, GUARANTEES, rows, section
from workers.sample_requests import SAMPLES


def test_words_of_permissions_are_those_of_the_code() -> None:
    tables = rows(APPROVERS, "Permissions")
    assert set(Execution) | set(ResultReview) <= tables.keys()
    default = Permission()
    assert "This is the default." in tables[default.execution][0]
    assert "This is the default." in tables[default.result][0]
    said = [word for word in (*Execution, *ResultReview) if "This is the default." in tables[word][0]]
    assert said == [default.execution, default.result]


def test_older_words_mean_what_the_table_says() -> None:
    older = {said: means for said, (means, *_) in rows(APPROVERS, "Permissions").items() if "=" in said}
    assert len(older) == 9
    for said, means in older.items():
        registered = eval(f"tool({said}, registry=registry)", {"tool": tool, "registry": Registry()})(_nothing)
        assert isinstance(registered, Tool)
        assert registered.manifest.permission == eval(means.strip("`"), {"Permission": Permission})


def _nothing() -> None:
    """Do nothing."""


def test_fields_of_approvers_are_those_of_the_code() -> None:
    fields = rows(APPROVERS, "Who decides")
    assert fields.keys() == Approvers.model_fields.keys()
    for kind in Approvers.Kind:
        assert f'"{kind}"' in fields["kind"][0]
    for name in ("threshold", "rejections", "exclude_requester"):
        assert fields[name][-1].strip("`") == str(Approvers.model_fields[name].default)


def test_times_and_fallbacks_are_those_of_the_code() -> None:
    assert Settings.model_fields["remember_for"].default == timedelta(days=7)
    assert "`ASSENT_REMEMBER_FOR`, seven days" in section(APPROVERS, "Remembered decisions")
    assert Plan.model_fields["result_ttl"].default == timedelta(hours=1)
    assert Plan.model_fields["result_fallback"].default is Fallback.WITHHOLD
    assert "an hour unless a rule says otherwise" in section(APPROVERS, "Reviewed results")


def test_what_consent_rests_on_is_said_where_it_is_promised() -> None:
    before, after = (
        tool(name="t", permission=said, registry=Registry())(_nothing).manifest for said in ("public", "sensitive")
    )
    assert before.shown_sha256 != after.shown_sha256
    assert "permission" in section(GUARANTEES, "What was shown is what was approved")


def test_samples_show_each_way_of_asking() -> None:
    asked = {sample.tool for sample in SAMPLES}
    assert {"look_up_rate", "post_update", "sign_contract", "read_payroll"} <= asked
