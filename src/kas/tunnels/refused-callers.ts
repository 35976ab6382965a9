import type { AgentId, Call, Forward } from '../../call/call.ts'
import type { Clock } from '../../lib/clock.ts'
import { type ErrorSpec, KasError } from '../../lib/errors.ts'
import { LimitedLog } from '../../lib/limited-log.ts'
import type { Logger } from '../../lib/log.ts'

/** Pairs of a caller and an agent that are kept: the latest refused ones. */
const maxKept = 1000
/** How long a pair is kept. ms */
const keptMs = 600_000

/** How long this replica repeats a refusal without asking the holder. ms */
const againMs = 1000

/** A caller at this replica whose calls of an agent were refused. */
export interface RefusedCaller {
  readonly name: string
  readonly agentId: AgentId
  /** content of the last refusal */
  readonly last: Extract<ErrorSpec, { code: 'CALLER_OVER_SHARE' }>
  /** ms since 1970 */
  readonly lastAt: number
  /** refused calls since the pair is kept */
  readonly count: number
}

interface Kept {
  readonly refused: RefusedCaller
  /** when a holder refused the caller. ms since 1970 */
  readonly askedAt: number
  readonly log: LimitedLog
}

/** Callers that were refused for more than their share of an agent's tunnels: for the log and `kas status`. */
export class RefusedCallers {
  readonly #components: { clock: Clock; log: Logger }
  /** the latest refused pair last */
  readonly #kept = new Map<string, Kept>()

  /** @param components.clock - clock since 1970 */
  constructor(components: { clock: Clock; log: Logger }) {
    this.#components = components
  }

  /** Wraps a stage: its refusals are kept and logged. */
  watch(forward: Forward): Forward {
    return async (call) => {
      const before = this.#kept.get(pairOf(call))
      const agoMs = before ? this.#components.clock.now() - before.askedAt : againMs
      if (before && agoMs >= 0 && agoMs < againMs) {
        const error = new KasError(before.refused.last)
        this.#keep(call, error, before.refused.last, before.askedAt)
        throw error
      }
      try {
        return await forward(call)
      } catch (error) {
        if (error instanceof KasError && error.spec.code === 'CALLER_OVER_SHARE')
          this.#keep(call, error, error.spec, this.#components.clock.now())
        throw error
      }
    }
  }

  /** Returns the refused callers, the latest first. */
  recent(): readonly RefusedCaller[] {
    const oldest = this.#components.clock.now() - keptMs
    const all = Array.from(this.#kept.values(), ({ refused }) => refused)
    return all.reverse().filter(({ lastAt }) => lastAt >= oldest)
  }

  #keep(call: Call, error: KasError, last: RefusedCaller['last'], askedAt: number): void {
    const { agentId, caller } = call
    const { name = 'unnamed' } = caller
    const lastAt = this.#components.clock.now()
    const pair = pairOf(call)
    const before = this.#kept.get(pair)
    const isRecent = before && before.refused.lastAt >= lastAt - keptMs
    const count = isRecent ? before.refused.count + 1 : 1
    const log = before?.log ?? new LimitedLog(this.#components, 'A caller is refused: others wait for the agent')
    this.#kept.delete(pair)
    this.#kept.set(pair, { refused: { name, agentId, last, lastAt, count }, askedAt, log })
    const [first] = this.#kept.keys()
    if (first !== undefined && this.#kept.size > maxKept) this.#kept.delete(first)
    log.warn(error.message, { caller: name, agent_id: String(agentId) })
  }
}

function pairOf({ agentId, caller }: Call): string {
  return `${agentId} ${caller.key}`
}
