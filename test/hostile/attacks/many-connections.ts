import { abortable } from '../../../src/lib/signals.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { dialAgent } from '../stage.ts'

interface Size {
  readonly connections: number
}

export const manyConnections: Attack<Size> = {
  name: 'many-connections',
  what: 'connections of one agent, far more than it may have, each with a good token',
  refusal: /Too many connections of this agent/,
  counter: 'kas_agents_refused_total{reason="too_many_streams"}',
  cheap: { connections: 150 },
  full: { connections: 1500 },
  async play(stage, { connections }, signal) {
    const refusals = new Set<string>()
    const agents: FakeAgent[] = []
    const end = async () => agents.forEach((agent) => void agent.close())
    try {
      for (let i = 0; i < connections; i++) {
        const agent = await abortable(dialAgent(stage, stage.holder), signal).catch(() => undefined)
        signal.throwIfAborted()
        if (!agent) continue // kas had no room for it
        agents.push(agent)
        void agent.open().done.then(({ error }) => error && refusals.add(error.message))
        await abortable(Promise.race([agent.session.ping(), agent.session.closed]), signal)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: [...refusals].join('; ') || `all ${connections} were taken`, end }
  },
}
