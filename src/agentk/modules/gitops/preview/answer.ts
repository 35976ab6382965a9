import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { type PreviewEndSchema, PreviewResponseSchema } from '../../../../proto/gen/gitops_preview_pb.ts'
import type { ShownObject } from './changed-objects.ts'

/** Limit of the objects of one answer. bytes */
const maxAnswerBytes = 4 * 1024 * 1024
/** Limit of a text in an answer. Characters */
const maxTextLength = 1000
/** Limit of a file's path in an answer. Characters */
const maxFileLength = 500

export type ShownEnd = MessageInitShape<typeof PreviewEndSchema>

/** Result of a preview. */
export interface Previewed {
  readonly objects: readonly ShownObject[]
  /** without the numbers of objects by action */
  readonly end: ShownEnd
}

/** Number of the end for each action. */
const counters = {
  created: 'created',
  changed: 'changed',
  adopted: 'adopted',
  recreated: 'recreated',
  deleted: 'deleted',
  waits: 'waiting',
  stays: 'staying',
  fails: 'failing',
  drifted: 'drifted',
} as const satisfies Readonly<Record<string, keyof ShownEnd>>

/** The most important objects come first if not all have room. */
const order: readonly string[] = [
  'fails',
  'waits',
  'deleted',
  'recreated',
  'adopted',
  'changed',
  'created',
  'stays',
  'drifted',
]

/** Yields the messages of an answer: objects, as far as there is room, then the end with all numbers. */
export function* messagesOf({ objects, end }: Previewed, maxBytes: number = maxAnswerBytes): Generator<Uint8Array> {
  const counts = { ...end, cut: 0, unverified: objects.filter(({ unverified }) => unverified).length }
  for (const [action, counter] of Object.entries(counters))
    counts[counter] = objects.filter((one) => one.action === action).length
  let bytes = 0
  for (const object of objects.toSorted((one, other) => rankOf(one) - rankOf(other))) {
    const value = { ...object, text: cut(object.text, maxTextLength), file: cut(object.file, maxFileLength) }
    const message = response({ case: 'object', value })
    bytes += message.length
    if (bytes > maxBytes) counts.cut += 1
    else yield message
  }
  yield response({ case: 'end', value: counts })
}

/** Returns the rank of an object in an answer: the most important ones have the lowest. */
export function rankOf({ action = '' }: ShownObject): number {
  return order.indexOf(action)
}

function cut(text: string | undefined, maxLength: number): string {
  if (text === undefined || text.length <= maxLength) return text ?? ''
  return `${text.slice(0, maxLength - 1).toWellFormed()}…`
}

function response(what: NonNullable<MessageInitShape<typeof PreviewResponseSchema>['what']>): Uint8Array {
  return toBinary(PreviewResponseSchema, create(PreviewResponseSchema, { what }))
}
