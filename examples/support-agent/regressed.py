"""The same agent after two bad changes: it forgets the order before turn 3, and looks for invoices by the question.

It shows what the gate reports when a conversation or a hop breaks. See README.md.
"""

from __future__ import annotations

import agent


class Agent(agent.Agent):
    """A conversation with the agent, made worse."""

    def remember(self, question: str) -> None:
        self.question = question
        if self.turn == 3:
            self.order_id = None
        super().remember(question)

    def second_hop(self, order: str) -> tuple[str, str]:
        query, source = super().second_hop(order)
        if source == "invoices":
            return self.question, source
        return query, source
