import Negotiator from 'negotiator'
import { BackwardWriter } from '../../../../proto/wire/wire.ts'

/**
 * Kubernetes' `Status` of a failure: what kubectl and the UI of GitLab can read (doc/reference/tunnel-protocol.md 6.6).
 */
export interface Status {
  readonly message: string
  /** HTTP */
  readonly code: number
  /** for programs; absent: Kubernetes' own word for the code, where it has one */
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

/** The first is the default. */
const encoders: Record<string, (status: Status) => string | Uint8Array> = {
  'application/json': encodeJson,
  'application/yaml': encodeYaml,
  'application/vnd.kubernetes.protobuf': encodeProtobuf,
}
export const mediaTypes = Object.keys(encoders)
/** browsers and kubectl send a few hundred; the rest is not read, for anybody may ask */
const maxAcceptCharacters = 4096
const yamlLineWidth = 80
/** what a single-quoted YAML text cannot hold */
const unprintable = /[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd]|[\u2028\u2029]/

/**
 * The type of the answer: the first of ours that the caller likes best, whatever parameters it adds
 * (`;as=Table`). Undefined: it accepts none of them.
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

/** As Go writes it: fields in this order, a newline, and no character that means something in HTML. */
function encodeJson(failure: Status): string {
  const { kind, apiVersion, metadata, status, ...rest } = fields(failure)
  const json = JSON.stringify({ kind, apiVersion, metadata, status, ...rest })
  return `${json.replace(/[<>&\u2028\u2029]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`)}\n`
}

/**
 * As Go writes it: keys sorted, the message quoted since it always holds a colon, folded at the first space after 80.
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

/** `k8s\0` and runtime.Unknown{typeMeta{apiVersion, kind}, raw: metav1.Status}. */
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
