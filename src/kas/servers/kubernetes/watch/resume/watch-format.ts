import { isOneObject } from '../../../../../lib/json-scanner.ts'
import type { HttpResponseHeader } from '../../../../../proto/http/http-message.ts'
import { BackwardWriter } from '../../../../../proto/wire/wire.ts'
import { encodeStatus, type Status } from '../../response/status.ts'
import type { EventFacts } from './event-facts.ts'
import { readJsonEvent } from './json-event.ts'
import { readProtobufEvent } from './protobuf-event.ts'
import { type Boundaries, LengthBoundaries, LineBoundaries } from './watch-frames.ts'

/** Encoding of a watch's events. */
export interface WatchFormat {
  readonly mediaType: string
  boundaries(): Boundaries
  /** undefined: it is no event */
  readEvent(event: Uint8Array): EventFacts | undefined
  /** @returns undefined: `body` is no Status */
  errorEvent(body: Uint8Array): Promise<Uint8Array | undefined>
}

const json: WatchFormat = {
  mediaType: 'application/json',
  boundaries: () => new LineBoundaries(),
  readEvent: readJsonEvent,
  errorEvent: async (body) => {
    if (!(await isOneObject(body))) return undefined
    const text = Buffer.from(body)
      .toString('utf8')
      .replaceAll(/[\r\n]/g, ' ')
    return Buffer.from(`{"type":"ERROR","object":${text.trim()}}\n`)
  },
}

const magic = Buffer.from('k8s\0')

const protobuf: WatchFormat = {
  mediaType: 'application/vnd.kubernetes.protobuf',
  boundaries: () => new LengthBoundaries(),
  readEvent: readProtobufEvent,
  errorEvent: async (body) => {
    if (!magic.equals(body.subarray(0, magic.length))) return undefined
    const writer = new BackwardWriter()
    const object = writer.length
    writer.bytes(body)
    writer.close(1, object)
    writer.close(2, object)
    const type = writer.length
    writer.utf8('ERROR')
    writer.close(1, type)
    const event = writer.take()
    const head = Buffer.alloc(4)
    head.writeUInt32BE(event.length)
    return Buffer.concat([head, event])
  },
}

const streamed = /;\s*stream=watch\s*(?:;|$)/i

/** @returns undefined: the answer is no watch whose events can be separated */
export function watchFormat({ statusCode, header }: HttpResponseHeader): WatchFormat | undefined {
  if (statusCode !== 200 || header.some(([name]) => name === 'Content-Encoding')) return undefined
  const format = formatOf(header)
  return format !== protobuf || streamed.test(contentType(header)) ? format : undefined
}

/**
 * Creates the event that ends a watch which the cluster refused when it was opened again.
 *
 * @param body - body of the refusal, as far as it was read
 */
export async function refusalEvent(
  { mediaType, errorEvent }: WatchFormat,
  { statusCode, header }: HttpResponseHeader,
  body: Uint8Array,
): Promise<Uint8Array> {
  const isStatus = statusCode !== 200 && formatOf(header)?.mediaType === mediaType
  const own = isStatus ? await errorEvent(body) : undefined
  return (
    own ??
    (await statusEvent(
      { mediaType, errorEvent },
      {
        code: statusCode === 200 ? 502 : statusCode,
        message: `GitLab Agent Server: the watch was lost, and the cluster has answered it with HTTP status ${statusCode} since`,
      },
    ))
  )
}

/** Creates the event that ends a watch for a reason of kas itself. */
export async function statusEvent(
  { mediaType, errorEvent }: Pick<WatchFormat, 'mediaType' | 'errorEvent'>,
  status: Status,
): Promise<Uint8Array> {
  return (await errorEvent(Buffer.from(encodeStatus(mediaType, status)))) ?? new Uint8Array(0)
}

function formatOf(header: HttpResponseHeader['header']): WatchFormat | undefined {
  const [type = ''] = contentType(header).split(';')
  return [json, protobuf].find(({ mediaType }) => mediaType === type.trim().toLowerCase())
}

function contentType(header: HttpResponseHeader['header']): string {
  return header.find(([name]) => name === 'Content-Type')?.[1][0] ?? ''
}
