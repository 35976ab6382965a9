import { setImmediate } from 'node:timers/promises'
import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import { decodeMessage } from '../../../proto/decode.ts'
import {
  GitopsStates,
  PushEndSchema,
  type SourceState,
  SourceStateSchema,
} from '../../../proto/gen/gitops_states_pb.ts'
import { methodPath } from '../../../proto/unary.ts'
import { Reader } from '../../../proto/wire/wire.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { States } from './states.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const pushMethod = methodPath(GitopsStates.method.push)

/** Objects, and environments, that one state names. */
const maxListed = 100

/** Of one field of a state, an object of a list among them. bytes */
const maxFieldBytes = 16 * 1024

/** Of all lists, and some that a later version may add. */
const maxFields = 1000

/** Of fields that a later version may add: all who read a state pass over them. bytes */
const maxUnknownBytes = 4096

/** After a longer one others have their turn, also where the next one is there already. */
const turnBytes = 4096

const { field } = SourceStateSchema

const lists = [field.trouble, field.planned, field.environment, field.orphan, field.leaving, field.kept]

/** Of the name of a source: an agent's, a project's number, a name of 32. */
const maxSourceLength = 128

/**
 * The pod that leads reports how its sources fare, until its connection retires.
 *
 * @param options.pollMs - a void token goes unnoticed no longer than this
 */
export function pushStates(
  { states, clock }: { readonly states: Pick<States, 'open'>; readonly clock: Clock },
  { pollMs }: { readonly pollMs: number },
): (call: AgentCall) => Promise<void> {
  return async (call) => {
    const ended = linkedController(call.signal, call.retired)
    const own = states.open(call.agent.id)
    const messages = call.messages[Symbol.asyncIterator]()
    call.sendMetadata({})
    const stopWatching = watchToken(call, { clock, pollMs }, (reason) => ended.abort(reason))
    try {
      await abortable(call.stillValid(), ended.signal)
      for (;;) {
        const { done, value } = await abortable(messages.next(), ended.signal)
        if (done) break
        const state = readState(value)
        const kept = { whole: withoutUnknown(value, state), cut: () => cutDown(state), isRemoved: state.removed }
        if (!own.put(state.source, kept)) throw invalid('more than an agent may report of its sources')
        if (value.length > turnBytes) await setImmediate()
      }
    } catch (error) {
      if (!call.retired.aborted || call.signal.aborted) throw error
    } finally {
      stopWatching()
      own.end()
      ended.dispose()
    }
    call.send(toBinary(PushEndSchema, create(PushEndSchema)))
  }
}

/** Calls `lost` once the token is void. @returns ends that */
function watchToken(
  call: AgentCall,
  { clock, pollMs }: { clock: Clock; pollMs: number },
  lost: (reason: unknown) => void,
): () => void {
  const check = () => void call.stillValid().catch(lost)
  const detach = call.onDirectoryChange(check)
  let cancel: () => void
  const checkLater = () => {
    cancel = clock.after(pollMs, () => {
      check()
      checkLater()
    })
  }
  checkLater()
  return () => {
    cancel()
    detach()
  }
}

/** @throws KasError INVALID_MESSAGE */
function readState(bytes: Uint8Array): SourceState {
  checkFields(bytes)
  const state = decodeMessage(SourceStateSchema, bytes)
  if (state.source === '' || state.source.length > maxSourceLength) throw invalid('source is no name of one')
  return state
}

/** Before anything is built of them. @throws KasError INVALID_MESSAGE */
function checkFields(bytes: Uint8Array): void {
  const counts = new Counter<number>()
  let fields = 0
  const reader = new Reader(bytes)
  while (reader.next()) {
    fields += 1
    if (fields > maxFields) throw invalid(`more than ${maxFields} fields of a state`)
    if (reader.type === 2 && reader.bytes.length > maxFieldBytes) {
      throw invalid(`field ${reader.field} of a state has more than ${maxFieldBytes} bytes`)
    }
    counts.add(reader.field)
  }
  for (const { number, name } of lists) {
    if (counts.of(number) > maxListed) throw invalid(`more than ${maxListed} of ${name}`)
  }
}

/** As it came, unless what this version does not know is much of it. */
function withoutUnknown(bytes: Uint8Array, state: SourceState): Uint8Array {
  const known = toBinary(SourceStateSchema, state)
  return bytes.length - known.length > maxUnknownBytes ? known : bytes
}

/** How many objects are not well, and not which. */
function cutDown(state: SourceState): Uint8Array {
  return toBinary(SourceStateSchema, {
    ...state,
    trouble: [],
    planned: [],
    environment: [],
    orphan: [],
    leaving: [],
    kept: [],
    isCut: true,
  })
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
