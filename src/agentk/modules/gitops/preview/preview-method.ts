import type { Clock } from '../../../../lib/clock.ts'
import { Deadline } from '../../../../lib/deadline.ts'
import { KasError } from '../../../../lib/errors.ts'
import { type Hold, SharedRoom } from '../../../../lib/shared-room.ts'
import type { PreviewBegin } from '../../../../proto/gen/gitops_preview_pb.ts'
import { Gitops } from '../../../../proto/gen/gitops_questions_pb.ts'
import { methodPath } from '../../../../proto/unary.ts'
import { callerOf, roomUserOf } from '../../../caller.ts'
import { replyOf } from '../../../tunnels/reply-of.ts'
import type { Serve } from '../../../tunnels/serve.ts'
import type { SharedBytes } from '../files/kept-files.ts'
import type { ObjectRights } from '../state/object-rights.ts'
import { messagesOf, type Previewed } from './answer.ts'
import { previewChange } from './preview-change.ts'
import type { PreviewedSource } from './previewed-source.ts'
import { ReceivedFiles } from './received-files.ts'

/** Limit of previews at once at an agent (`previews`): each renders, and sends up to two calls for each object. */
export const maxPreviews = 2
/** Limit of one preview, from its files to its end. ms */
const timeoutMs = 60_000
/** Form of an audit id: a UUID, or as many such characters. */
const auditIdForm = /^[A-Za-z0-9-]{1,64}$/

export interface PreviewMethodComponents {
  /**
   * Returns the source with this id, or the reason for which nothing can be compared.
   *
   * @param of.user - key of the caller. @param of.headers - of all requests: name, value, name, value
   * @param of.hasRoom - true if so many bytes of objects have room beside the files
   */
  readonly sourceOf: (
    id: string,
    of: {
      readonly user: string
      readonly headers: readonly string[]
      readonly hasRoom: (bytes: number) => boolean
    },
  ) => PreviewedSource | string
  readonly rights: Pick<ObjectRights, 'may' | 'rules'>
  /** budget of all previews */
  readonly room: SharedBytes
  /** `now`: ms since 1970 */
  readonly clock: Clock
  /** ends all previews: this pod leads no longer, so its dry runs are not sent any more */
  readonly signal: AbortSignal
}

/** Returns the method by which kas asks what a change would do to the cluster. */
export function previewMethod(components: PreviewMethodComponents): readonly [string, Serve] {
  const room = new SharedRoom({ name: 'previews', limit: maxPreviews })
  const serve: Serve = async ({ messages, signal }) => replyOf(answer(components, room, messages, signal))
  return [methodPath(Gitops.method.preview), serve]
}

/** Answers once the preview has left its place: a caller that reads slowly holds none. */
async function* answer(
  components: PreviewMethodComponents,
  room: SharedRoom,
  messages: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  yield* messagesOf(await preview(components, room, messages, signal))
}

/**
 * Makes a preview within the time limit, in the caller's part of the room.
 *
 * @throws KasError TOO_MANY_STREAMS, DEADLINE_EXCEEDED, INVALID_MESSAGE, MESSAGE_TOO_LARGE; as `previewChange`; the
 * reason of the caller's signal, or of the term's
 */
async function preview(
  components: PreviewMethodComponents,
  room: SharedRoom,
  messages: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): Promise<Previewed> {
  const { clock, signal: term } = components
  const reason = () => new KasError({ code: 'DEADLINE_EXCEEDED' })
  const deadline = new Deadline({ ms: timeoutMs, clock, signals: [signal, term], reason })
  const memory = new PreviewBytes(components.room)
  const received = new ReceivedFiles({ messages, room: (bytes) => memory.files(bytes), clock })
  let hold: Hold | undefined
  try {
    const begin = await received.begin(deadline.signal)
    const user = roomUserOf(begin.caller, 'a preview')
    hold = room.enter(user, { what: 'previews at this agent', end: (ended) => deadline.abort(ended) })
    return await compared(components, { begin, user: user.key, received, memory }, deadline.signal)
  } finally {
    memory.release()
    hold?.leave()
    deadline.end()
    received.leave()
  }
}

async function compared(
  { sourceOf, rights, clock }: PreviewMethodComponents,
  {
    begin,
    user,
    received,
    memory,
  }: {
    readonly begin: PreviewBegin
    readonly user: string
    readonly received: ReceivedFiles
    readonly memory: PreviewBytes
  },
  signal: AbortSignal,
): Promise<Previewed> {
  const { source: id, auditId, values } = begin
  const caller = callerOf(begin.caller, 'a preview')
  if (!auditIdForm.test(auditId))
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'a preview without a usable audit id' })
  const files = await received.files(signal)
  const headers = ['Audit-ID', auditId]
  const source = sourceOf(id, { user, headers, hasRoom: (bytes) => memory.objects(bytes) })
  const atMs = BigInt(clock.now())
  if (typeof source === 'string') return { objects: [], end: { problem: source, atMs } }
  const { objects, end } = await previewChange(source, rights, { caller, headers, files, values }, signal)
  return { objects, end: { ...end, atMs } }
}

/** Memory of one preview, in the budget of all. */
class PreviewBytes {
  readonly #room: SharedBytes
  #files = 0

  constructor(room: SharedBytes) {
    this.#room = room
  }

  /** @throws KasError TOO_MANY_STREAMS: there is no room for so many bytes of files */
  files(bytes: number): void {
    this.#files = bytes
    this.#take(bytes)
  }

  /** @returns true. @throws KasError TOO_MANY_STREAMS: there is no room for so many bytes of objects beside the files */
  objects(bytes: number): boolean {
    this.#take(this.#files + bytes)
    return true
  }

  release(): void {
    this.#room.release(this)
  }

  #take(bytes: number): void {
    if (this.#room.set(this, bytes)) return
    const what = 'bytes of the files and objects of previews'
    throw new KasError({ code: 'TOO_MANY_STREAMS', name: 'preview_bytes', limit: this.#room.maxBytes, what })
  }
}
