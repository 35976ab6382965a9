import type { AgentId, Call } from '../../src/call/call.ts'
import { kasCaller } from '../../src/call/caller.ts'
import { KnownMessages } from '../../src/call/known-messages.ts'
import { KasError } from '../../src/lib/errors.ts'
import type { CallRecord } from './ledger.ts'
import { answerTo, methods } from './simulated-agent.ts'
import { callKey, readAnswer, type SimulatedReplica } from './simulated-replica.ts'
import type { World } from './world.ts'

/** shares, 0 to 1: safe calls; callers that leave; messages that come one by one */
const safeShare = 0.5
const leavingShare = 0.05
const slowShare = 0.3
/** time until a caller leaves, and pause between two messages of a slow one. ms */
const patienceMs = 3000
const betweenMessagesMs = 200

/** Calls agents through any replica, and reports the answers to the ledger. */
export class Callers {
  readonly #world: World
  #calls = 0

  constructor(world: World) {
    this.#world = world
  }

  /** Makes a call of any kind to any agent at any replica. */
  call(): void {
    const { chance, replicas, agentIds } = this.#world
    const serving = replicas.filter(({ isServing }) => isServing)
    if (serving.length === 0) return
    const safety = chance.chance(safeShare) ? 'safe' : 'unsafe'
    const leavesAfterMs = chance.chance(leavingShare) ? chance.fraction() * patienceMs : undefined
    this.#begin(chance.pick(serving), { agentId: chance.pick(agentIds), safety, leavesAfterMs })
  }

  /** Makes a call that must get an answer. @returns its record */
  probe(replica: SimulatedReplica, agentId: AgentId): CallRecord {
    return this.#begin(replica, { agentId, safety: 'safe', leavesAfterMs: undefined })
  }

  #begin(
    replica: SimulatedReplica,
    options: { agentId: AgentId; safety: 'safe' | 'unsafe'; leavesAfterMs: number | undefined },
  ): CallRecord {
    const { ledger, time, network, chance } = this.#world
    const { machine, membership } = replica
    const id = `c${++this.#calls}`
    const { agentId, safety, leavesAfterMs } = options
    const record: CallRecord = {
      id,
      agentId,
      safety,
      machine,
      instance: membership.instance,
      expectedMessages: answerTo(id, agentId),
      deliveredTo: [],
      story: [],
      outcome: undefined,
    }
    const isSlow = chance.chance(slowShare)
    time.post(machine, network.latencyMs(), () => {
      ledger.began(record)
      const caller = new AbortController()
      const leave = () => caller.abort(new KasError({ code: 'CANCELLED' }))
      if (leavesAfterMs !== undefined) setTimeout(leave, leavesAfterMs)
      const parts = ['a', 'b', 'c'].map((text) => Buffer.from(`${id}${text}`))
      const call: Call = {
        agentId,
        method: safety === 'safe' ? methods.list : methods.change,
        metadata: { [callKey]: [id] },
        messages: isSlow ? slowly(parts) : new KnownMessages(parts),
        safety,
        caller: kasCaller,
        signal: caller.signal,
      }
      void readAnswer(replica.forward, call).then(({ error, messages }) => ledger.answered(id, error?.code, messages))
    })
    return record
  }
}

async function* slowly(parts: readonly Uint8Array[]): AsyncGenerator<Uint8Array, void, void> {
  for (const part of parts) {
    await new Promise<void>((resolve) => setTimeout(resolve, betweenMessagesMs))
    yield part
  }
}
