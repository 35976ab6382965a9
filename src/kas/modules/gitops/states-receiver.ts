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
import { maxListed } from '../../../proto/gitops/limits.ts'
import { noLists, stateLists } from '../../../proto/gitops/state-lists.ts'
import { methodPath } from '../../../proto/unary.ts'
import { Reader } from '../../../proto/wire/wire.ts'
import type { AgentCall } from '../../agent-method.ts'
import type { States } from './states.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const pushMethod = methodPath(GitopsStates.method.push)

/** Bytes of one field of a state, or of one object in its lists. */
const maxFieldBytes = 16 * 1024

/** Fields of a state, lists included; some more for a later version. */
const maxFields = 1000

/** Bytes of fields that a later version may add: all readers of a state skip them. */
const maxUnknownBytes = 4096

/** Bytes of a message after which others have their turn, even if the next message is there already. */
const turnBytes = 4096

/** Characters of a source's id: the agent's number, the project's number and a name of 32. */
const maxSourceLength = 128

/**
 * Takes the states of sources that the leading pod reports, until its connection retires.
 *
 * @param options.pollMs - the longest that an invalid token goes unnoticed, in ms
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

/** Calls `lost` once the token is invalid. @returns the function that ends the watch */
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

/** Counts fields before the message is decoded. @throws KasError INVALID_MESSAGE */
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
  for (const { number, name } of stateLists) {
    if (counts.of(number) > maxListed) throw invalid(`more than ${maxListed} of ${name}`)
  }
}

/** Returns the state as it came, without unknown fields if they are large. */
function withoutUnknown(bytes: Uint8Array, state: SourceState): Uint8Array {
  const known = toBinary(SourceStateSchema, state)
  return bytes.length - known.length > maxUnknownBytes ? known : bytes
}

/** Encodes the state without its lists of objects: numbers remain, names do not. */
function cutDown(state: SourceState): Uint8Array {
  return toBinary(SourceStateSchema, { ...state, ...noLists, isCut: true })
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
