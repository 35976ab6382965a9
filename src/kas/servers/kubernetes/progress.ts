import type { Delivery, KasError } from '../../../lib/errors.ts'
import type { RequestSpan } from './http/request-span.ts'
import type { FailedAt } from './response/error-answer.ts'

/** What is known of a request so far: how a failure is told depends on it. */
export interface Progress {
  accept: readonly string[]
  origin: string | undefined
  failedAt: FailedAt
  delivery: Delivery
  isWebSocket: boolean
  readonly span: RequestSpan
  /** what the request ended with, if not with the cluster's answer */
  failure?: KasError
  /** of a watch in JSON whose answer has begun: whether an event could follow now */
  begunWatch?: 'at_line_end' | 'in_line'
  /** why the caller may no longer, found while its request ran */
  withdrawn?: KasError
}

export function newProgress(span: RequestSpan): Progress {
  return { accept: [], origin: undefined, failedAt: 'entry', delivery: 'none', isWebSocket: false, span }
}
