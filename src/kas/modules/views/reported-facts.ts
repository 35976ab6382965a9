import type { AgentId } from '../../../call/call.ts'
import type { Facts } from '../../../proto/gen/views_pb.ts'
import type { AgentCall, StatusLine } from '../../module.ts'

const states = ['live', 'syncing', 'stale'] as const

interface Reported {
  readonly agentId: AgentId
  readonly kinds: number
  readonly objects: number
  readonly state: (typeof states)[number]
}

/** What the pods that lead say of their clusters, while they say it here. */
export class ReportedFacts {
  readonly #byCall = new Map<AgentCall, Reported>()

  /** The newest of a stream count. */
  learn(call: AgentCall, { kinds, objects, state }: Facts): void {
    const known = states.find((each) => each === state) ?? 'stale'
    this.#byCall.set(call, { agentId: call.agent.id, kinds, objects, state: known })
  }

  /** The stream has ended. */
  forget(call: AgentCall): void {
    this.#byCall.delete(call)
  }

  /** Lines of `kas status`. */
  lines(): StatusLine[] {
    const all = [...this.#byCall.values()]
    const sum = (of: (one: Reported) => number) => all.reduce((total, one) => total + of(one), 0)
    return [
      ['agents that report', new Set(all.map(({ agentId }) => agentId)).size],
      ...states.map((state): StatusLine => [`of them ${state}`, all.filter((one) => one.state === state).length]),
      ['kinds', sum(({ kinds }) => kinds)],
      ['objects', sum(({ objects }) => objects)],
    ]
  }
}
