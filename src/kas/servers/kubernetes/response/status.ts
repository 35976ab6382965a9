import Negotiator from 'negotiator'
import { BackwardWriter } from '../../../../proto/wire/wire.ts'

/** Kubernetes' `Status` of a failure, as kubectl and GitLab's pages read it (doc/reference/tunnel-protocol.md 6.6). */
export interface Status {
  readonly message: string
  /** HTTP status code */
  readonly code: number
  /** reason for programs; absent: Kubernetes' reason for the code, if there is one */
  readonly reason?: string | undefined
}

const reasons: Record<number, string> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  405: 'MethodNotAllowed',
  406: 'NotAcceptable',
  409: 'Conflict',
  410: 'Gone',
  413: 'RequestEntityTooLarge',
  415: 'UnsupportedMediaType',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
  504: 'Timeout',
}

/** Encoders by media type; the first is the default. */
const encoders: Record<string, (status: Status) => string | Uint8Array> = {
  'application/json': encodeJson,
  'application/yaml': encodeYaml,
  'application/vnd.kubernetes.protobuf': encodeProtobuf,
}
export const mediaTypes = Object.keys(encoders)
/** Characters of Accept headers that are read: browsers and kubectl send a few hundred, but anybody may send more. */
const maxAcceptCharacters = 4096
const yamlLineWidth = 80
/** Characters that a single-quoted YAML text cannot have. */
const unprintable = /[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]|[\u2028\u2029]/

/**
 * Chooses the media type of an answer: the one that the caller prefers, whatever parameters it adds (`;as=Table`).
 * Undefined: it accepts none of them.
 *
 * @param accept - values of all Accept headers
 */
export function negotiate(accept: readonly string[]): string | undefined {
  if (accept.length === 0) return mediaTypes[0]
  const plain = accept
    .join(',')
    .slice(0, maxAcceptCharacters)
    .replace(/;(?!\s*q\s*=)[^;,=]+(?:=(?:"[^"]*"|[^;,]*))?/gi, '')
  return new Negotiator({ headers: { accept: plain } }).mediaType(mediaTypes)
}

/** @param mediaType - one of `mediaTypes` */
export function encodeStatus(mediaType: string, status: Status): string | Uint8Array {
  return (encoders[mediaType] as (status: Status) => string | Uint8Array)(status)
}

/** Encodes as Go does: fields in this order, a newline, and HTML characters escaped. */
function encodeJson(failure: Status): string {
  const { kind, apiVersion, metadata, status, ...rest } = fields(failure)
  const json = JSON.stringify({ kind, apiVersion, metadata, status, ...rest })
  return `${json.replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

/**
 * Encodes as Go does: sorted keys, the message quoted because of its colon, folded at the first space after column 80.
 */
function encodeYaml({ message, code, reason = reasons[code] }: Status): string {
  const quoted = unprintable.test(message) ? JSON.stringify(message) : folded(`'${message.replaceAll("'", "''")}'`)
  const lines = ['apiVersion: v1', `code: ${code}`, 'kind: Status', `message: ${quoted}`, 'metadata: {}']
  if (reason !== undefined) lines.push(`reason: ${reason}`)
  return `${lines.join('\n')}\nstatus: Failure\n`
}

function folded(quoted: string): string {
  let column = 'message: '.length
  return quoted.replace(/(?<! ) (?! )|[^ ]+| +/g, (part) => {
    if (part !== ' ' || column <= yamlLineWidth) {
      column += part.length
      return part
    }
    column = 2
    return '\n  '
  })
}

function fields({ message, code, reason = reasons[code] }: Status) {
  const named = reason === undefined ? {} : { reason }
  return { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure', message, ...named, code }
}

/** Encodes `k8s\0` and runtime.Unknown{typeMeta{apiVersion, kind}, raw: metav1.Status}. */
function encodeProtobuf({ message, code, reason = reasons[code] }: Status): Uint8Array {
  const writer = new BackwardWriter()
  const text = (field: number, value: string) => {
    const from = writer.length
    writer.utf8(value)
    writer.close(field, from)
  }
  text(4, '') // contentType
  text(3, '') // contentEncoding
  const raw = writer.length
  writer.varint(code)
  writer.varint((6 << 3) | 0)
  text(4, reason ?? '')
  text(3, message)
  text(2, 'Failure')
  const metadata = writer.length
  text(3, '') // continue
  text(2, '') // resourceVersion
  text(1, '') // selfLink
  writer.close(1, metadata)
  writer.close(2, raw)
  const typeMeta = writer.length
  text(2, 'Status')
  text(1, 'v1')
  writer.close(1, typeMeta)
  writer.bytes(Buffer.from('k8s\0'))
  return writer.take()
}
