"""Outputs of tools in responses that are one text: of many told as of one, whatever else is looked at."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from board.formats.outputs.answered_calls import tool_outputs_in_text, tool_outputs_in_texts

MARKED = (
    "<tool_response>\n{}\n</tool_response>",
    "<environment_results>{}</environment_results>",
    "<information>{}</information>",
    "```output\n{}\n```",
    "<|im_start|>tool\n{}<|im_end|>",
    "<|start_header_id|>ipython<|end_header_id|>\n\n{}<|eot_id|>",
    "[TOOL_RESULTS]{}[/TOOL_RESULTS]",
)
PIECES = st.sampled_from(
    (
        *(mark.format("no route") for mark in MARKED),
        "\nObservation: x",
        "\nThought: y",
        "</",
        "`",
        "a " * 130,
    )
)


@pytest.mark.parametrize("mark", MARKED)
@given(
    before=st.text(max_size=300),
    output=st.sampled_from(("no route", "a 503")),
    after=st.text(max_size=200),
)
def test_an_output_that_ends_a_response_is_its_last(mark, before, output, after):
    response = before.replace("<", "") + mark.format(output) + after.replace("<", "")
    outputs = tool_outputs_in_text(response, None)
    assert outputs is not None
    assert outputs.last is not None
    assert outputs.last.text == output


@given(st.lists(st.none() | st.lists(PIECES, max_size=12).map("".join), max_size=5))
def test_the_outputs_of_many_responses_are_those_of_each(responses):
    each = [response and tool_outputs_in_text(response, None) for response in responses]
    together = tool_outputs_in_texts(responses, [None] * len(responses))
    assert [own and own.last for own in together] == [(own or None) and own.last for own in each]
