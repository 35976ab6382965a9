import { KasError } from '../../lib/errors.ts'
import { readEntry, ValueBudget } from '../wire/values.ts'
import type { Reader } from '../wire/wire.ts'
import type {
  Headers,
  HttpRequestHeader,
  HttpResponseHeader,
  Impersonation,
  ModuleRequestHeader,
} from './http-message.ts'

/**
 * Reads the header messages of HTTP inside a gRPC stream (doc/reference/tunnel-protocol.md 1.3 and 1.4). What they hold
 * comes from callers, from agents and from what answers in their clusters: it is counted before it is built.
 */

/** Of the head of an answer that is decoded, whoever sent it. */
export const maxHeadBytes = 1024 * 1024
/** Header lines of it: agentk lets 500 pass, and stock ones seldom see a hundred. */
export const maxHeadLines = 1000
/** Of whom a request acts as. */
export const maxHeadValues = 10_000
/** Of the head of a request: callers send 1 MiB, which is longer as a message. It has no more than one message may have. */
export const maxRequestHeadBytes = 4 * 1024 * 1024
/** Header lines of it: as many as kas takes of callers, and those that it adds. */
export const maxRequestHeadLines = 50_100
/** Values of its query: more than 1 MiB of `command=x`. */
export const maxQueryValues = 120_000

export const headerExtraName = 'gitlab.agent.kubernetes_api.rpc.HeaderExtra'
const moduleExtraName = 'gitlab.agent.gitlab_access.rpc.HeaderExtra'

/**
 * The query as its caller wrote it, in `HttpRequest.Header`: a field of ours, which others skip. Theirs is the map beside it, which
 * stands for the same.
 */
export const rawQueryField = 7001
/** Beside a longer one the map is not read. */
const maxBuiltRawQuery = 16 * 1024
/** as in a request line */
const queryText = /^[!-~]*$/

interface HeadLimits {
  readonly bytes: number
  readonly lines: number
  readonly queryValues: number
}

/** Of a request to a cluster, which kas sends. */
const requestLimits: HeadLimits = {
  bytes: maxRequestHeadBytes,
  lines: maxRequestHeadLines,
  queryValues: maxQueryValues,
}
/** Of a request to GitLab, which any agent may send. */
const moduleLimits: HeadLimits = { bytes: maxHeadBytes, lines: maxHeadLines, queryValues: maxHeadValues }

const lineBudget = (limit: number) => new ValueBudget({ limit, unit: 'header lines' })

/** @throws KasError INVALID_MESSAGE, HTTP_HEAD_TOO_LARGE */
export function readRequestHeader(reader: Reader): HttpRequestHeader {
  const { extra: impersonation, ...header } = readHeader(reader, readImpersonationExtra, requestLimits)
  return impersonation ? { ...header, impersonation } : header
}

/** @throws KasError INVALID_MESSAGE, HTTP_HEAD_TOO_LARGE */
export function readModuleRequestHeader(reader: Reader): ModuleRequestHeader {
  const { extra: moduleName, rawQuery: _, ...header } = readHeader(reader, readModuleExtra, moduleLimits)
  if (!moduleName) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'HttpRequest.Header.extra needs module_name' })
  }
  return { ...header, moduleName }
}

function readHeader<Extra>(reader: Reader, readExtra: (any: Reader) => Extra | undefined, limits: HeadLimits) {
  checkBytes(reader, limits.bytes)
  let request: ReturnType<typeof readRequest> | undefined
  let contentLength: number | undefined
  let extra: Extra | undefined
  let rawQuery: string | undefined
  while (reader.next()) {
    if (reader.field === 1) request = readRequest(reader.message, limits, rawQuery)
    else if (reader.field === rawQueryField) rawQuery = readRawQuery(reader)
    else if (reader.field === 2) extra = readExtra(reader.message)
    else if (reader.field === 3) contentLength = reader.int
  }
  if (!request?.method || !request.urlPath) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'HttpRequest.Header needs request, method and url_path' })
  }
  if (contentLength !== undefined && contentLength < -1) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: `content_length ${contentLength} is under -1` })
  }
  return {
    ...request,
    ...(rawQuery === undefined ? {} : { rawQuery }),
    ...(contentLength === undefined ? {} : { contentLength }),
    extra,
  }
}

function checkBytes({ length }: Reader, limit: number): void {
  if (length > limit) throw new KasError({ code: 'HTTP_HEAD_TOO_LARGE', limit, unit: 'bytes' })
}

/** @throws KasError INVALID_MESSAGE */
function readRawQuery({ latin1 }: Reader): string {
  if (!queryText.test(latin1)) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'raw_query is no query' })
  return latin1
}

/** @param rawQuery - which stood before it */
function readRequest(reader: Reader, { lines: maxLines, queryValues }: HeadLimits, rawQuery = '') {
  const request = { method: '', urlPath: '', query: [] as [string, string[]][], header: [] as Headers }
  const lines = lineBudget(maxLines)
  const skipsQuery = rawQuery.length > maxBuiltRawQuery
  const parameters = new ValueBudget({ limit: queryValues, unit: 'values of the query' })
  while (reader.next()) {
    if (reader.field === 1) request.method = reader.utf8
    else if (reader.field === 2) request.header.push(readEntry(reader, 'latin1', lines))
    else if (reader.field === 3) request.urlPath = reader.utf8
    else if (reader.field === 4 && !skipsQuery) request.query.push(readEntry(reader, 'utf8', parameters))
  }
  return request
}

/** @throws KasError INVALID_MESSAGE, HTTP_HEAD_TOO_LARGE */
export function readResponseHeader(reader: Reader): HttpResponseHeader {
  checkBytes(reader, maxHeadBytes)
  const header = { statusCode: 0, status: '', header: [] as Headers }
  const lines = lineBudget(maxHeadLines)
  let found = false
  while (reader.next()) {
    if (reader.field !== 1) continue
    found = true
    const response = reader.message
    while (response.next()) {
      if (response.field === 1) header.statusCode = response.int
      else if (response.field === 2) header.status = response.utf8
      else if (response.field === 3) header.header.push(readEntry(response, 'latin1', lines))
    }
  }
  if (!found) throw new KasError({ code: 'INVALID_MESSAGE', detail: 'HttpResponse.Header needs response' })
  return header
}

function readImpersonationExtra(any: Reader): Impersonation | undefined {
  const value = readAny(any, headerExtraName)
  while (value?.next()) if (value.field === 1) return readImpersonation(value.message)
  return undefined
}

function readModuleExtra(any: Reader): string | undefined {
  const value = readAny(any, moduleExtraName)
  while (value?.next()) if (value.field === 1) return value.utf8
  return undefined
}

/**
 * What an Any of type `name` holds. Another type is refused: it may say whom the request acts as, and without that it
 * would act as the agent.
 */
function readAny(any: Reader, name: string): Reader | undefined {
  let type = ''
  let value: Reader | undefined
  while (any.next()) {
    if (any.field === 1) type = any.utf8
    else if (any.field === 2) value = any.message
  }
  if (type.slice(type.lastIndexOf('/') + 1) !== name) {
    throw new KasError({ code: 'INVALID_MESSAGE', detail: 'HttpRequest.Header.extra is of an unknown type' })
  }
  return value
}

function readImpersonation(reader: Reader): Impersonation {
  const groups: string[] = []
  const extra: { key: string; val: string[] }[] = []
  const budget = new ValueBudget({ limit: maxHeadValues, unit: 'values of the impersonation' })
  let username = ''
  let uid = ''
  while (reader.next()) {
    if (reader.field === 1) username = reader.utf8
    else if (reader.field === 3) uid = reader.utf8
    else if (reader.field === 2) {
      budget.take()
      groups.push(reader.utf8)
    } else if (reader.field === 4) extra.push(readExtraPair(reader.message, budget))
  }
  return { username, groups, uid, extra }
}

function readExtraPair(reader: Reader, budget: ValueBudget): { key: string; val: string[] } {
  const pair = { key: '', val: [] as string[] }
  budget.take()
  while (reader.next()) {
    if (reader.field === 1) pair.key = reader.utf8
    else if (reader.field === 2) {
      budget.take()
      pair.val.push(reader.utf8)
    }
  }
  return pair
}
