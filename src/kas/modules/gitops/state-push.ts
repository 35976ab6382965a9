import { create, toBinary } from '@bufbuild/protobuf'
import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { abortable, linkedController } from '../../../lib/signals.ts'
import {
  GitopsStates,
  PushEndSchema,
  type SourceState,
  SourceStateSchema,
} from '../../../proto/gen/gitops_states_pb.ts'
import { decodeMessage, methodPath } from '../../../proto/unary.ts'
import { countField } from '../../../proto/wire/wire.ts'
import type { AgentCall } from '../../module.ts'
import type { States } from './states.ts'

/** `/package.Service/Method` that this module serves on 8150. */
export const pushMethod = methodPath(GitopsStates.method.push)

/** Objects, and environments, that one state names. */
const maxListed = 100

const { field } = SourceStateSchema

/** Of the name of a source: an agent's, a project's number, a name of 32. */
const maxSourceLength = 128

/**
 * The pod that leads tells how its sources fare, until its connection retires.
 *
 * @param options.pollMs - a void token goes unnoticed no longer than this
 */
export function pushStates(
  { states, clock }: { readonly states: Pick<States, 'open'>; readonly clock: Clock },
  { pollMs }: { readonly pollMs: number },
): (call: AgentCall) => Promise<void> {
  return async (call) => {
    const ended = linkedController(call.signal, call.retired)
    const told = states.open(call.agent.id)
    const messages = call.messages[Symbol.asyncIterator]()
    call.sendMetadata({})
    const stopWatching = watchToken(call, { clock, pollMs }, (reason) => ended.abort(reason))
    try {
      await abortable(call.stillValid(), ended.signal)
      for (;;) {
        const { done, value } = await abortable(messages.next(), ended.signal)
        if (done) break
        const state = readState(value)
        const kept = { whole: value, cut: () => cutDown(state), isRemoved: state.removed }
        if (!told.tell(state.source, kept)) throw invalid('more than an agent may tell of its sources')
      }
    } catch (error) {
      if (!call.retired.aborted || call.signal.aborted) throw error
    } finally {
      stopWatching()
      told.end()
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
  const look = () => void call.stillValid().catch(lost)
  const detach = call.onDirectoryChange(look)
  let cancel: () => void
  const lookLater = () => {
    cancel = clock.after(pollMs, () => {
      look()
      lookLater()
    })
  }
  lookLater()
  return () => {
    cancel()
    detach()
  }
}

/** Counted before anything is built of it. @throws KasError INVALID_MESSAGE */
function readState(bytes: Uint8Array): SourceState {
  for (const { number, name } of [field.trouble, field.planned, field.environment, field.orphan]) {
    if (count(bytes, number) > maxListed) throw invalid(`more than ${maxListed} of ${name}`)
  }
  const state = decodeMessage(SourceStateSchema, bytes)
  if (state.source === '' || state.source.length > maxSourceLength) throw invalid('source is no name of one')
  return state
}

/** How many objects are not well, and not which. */
function cutDown(state: SourceState): Uint8Array {
  return toBinary(SourceStateSchema, { ...state, trouble: [], planned: [], environment: [], orphan: [] })
}

function count(bytes: Uint8Array, number: number): number {
  try {
    return countField(bytes, number)
  } catch (cause) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'malformed SourceState' }, { cause })
  }
}

function invalid(detail: string): KasError {
  return new KasError({ code: 'INVALID_MESSAGE', detail })
}
