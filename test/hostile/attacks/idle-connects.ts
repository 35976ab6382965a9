import { abortable } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dialAgent, heard } from '../stage.ts'

interface Size {
  readonly streams: number
  readonly connections: number
}

export const idleConnects: Attack<Size> = {
  name: 'idle-connects',
  what: 'idle tunnels of one agent by the thousand, which all end at once',
  refusal: /tunnels|streams/,
  counter: 'kas_agents_refused_total{reason="too_many_streams"}',
  cheap: { streams: 4000, connections: 2 },
  full: { streams: 30_000, connections: 3 },
  async play(stage, { streams, connections }, signal) {
    const agents = await Promise.all(Array.from({ length: connections }, () => dialAgent(stage, stage.holder)))
    const refusals = new Set<string>()
    for (let i = 0; i < streams; i++) {
      const { done } = (agents[i % connections] as (typeof agents)[number]).open()
      void done.then(({ error }) => error && refusals.add(error.message))
      if (i % 100 === 99) await abortable(Promise.all(agents.map(heard)), signal)
    }
    await abortable(Promise.all(agents.map(heard)), signal)
    const refusal = [...refusals].join('; ') || `all ${streams} were taken`
    return { refusal, end: async () => agents.forEach((agent) => void agent.close()) }
  },
}
