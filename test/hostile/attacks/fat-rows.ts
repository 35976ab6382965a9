import { abortable } from '../../../src/lib/signals.ts'
import type { Attack } from '../attack.ts'
import { dialAgent, heard } from '../stage.ts'

interface Size {
  readonly connections: number
}

/** the number and length of names that one descriptor may have */
const methods = 250
const nameLength = 100
const atOnce = 8

/** Names that no other connection has, so that replicas cannot share them in what they gossip. */
function names(connection: number): string[] {
  return Array.from({ length: methods }, (_, i) => `/s${connection}.${'x'.repeat(nameLength)}/m${i}`)
}

export const fatRows: Attack<Size> = {
  name: 'fat-rows',
  what: 'connections of one agent that serve more than a replica\u2019s row has room for',
  refusal: /descriptor/,
  counter: 'kas_agents_refused_total{reason="invalid_message"}',
  cheap: { connections: 40 },
  full: { connections: 1200 },
  async play(stage, { connections }, signal) {
    const refusals = new Set<string>()
    const agents: Awaited<ReturnType<typeof dialAgent>>[] = []
    const end = async () => {
      for (const agent of agents) agent.close()
    }
    const open = async () => {
      while (agents.length < connections) {
        const agent = await dialAgent(stage, stage.holder)
        const { done } = agent.open(names(agents.push(agent)))
        void done.then(({ error }) => error && refusals.add(error.message))
        await heard(agent)
      }
    }
    try {
      await abortable(Promise.all(Array.from({ length: atOnce }, open)), signal)
    } catch (error) {
      await end()
      throw error
    }
    return { refusal: [...refusals].join('; ') || `all ${agents.length} were taken`, end }
  },
}
