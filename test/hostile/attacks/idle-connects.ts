import { abortable } from '../../../src/lib/signals.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import type { Attack } from '../attack.ts'
import { dialAgent, heard } from '../stage.ts'

interface Size {
  readonly streams: number
}

/** fewer than kas accepts on one connection: more would wait in this process */
const perConnection = 500

export const idleConnects: Attack<Size> = {
  name: 'idle-connects',
  what: 'idle tunnels of one agent by the thousand, which all end at once',
  refusal: /tunnels|streams|rate limit/,
  counter: 'kas_agents_refused_total{reason="too_many_streams"}',
  cheap: { streams: 2000 },
  full: { streams: 30_000 },
  async play(stage, { streams }, signal) {
    const refusals = new Set<string>()
    const agents: FakeAgent[] = []
    const end = async () => agents.forEach((agent) => void agent.close())
    try {
      for (let opened = 0; opened < streams; opened += perConnection) {
        const agent = await dialAgent(stage, stage.holder)
        agents.push(agent)
        await abortable(heard(agent), signal) // wait for kas' limit: kas drops more without a word
        for (let i = 0; i < perConnection; i++) {
          void agent.open().done.then(({ error }) => error && refusals.add(error.message))
        }
        await abortable(heard(agent), signal)
      }
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: [...refusals].join('; ') || `all ${streams} were taken`, end }
  },
}
