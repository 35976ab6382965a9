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
 * Reads the header messages of HTTP inside a gRPC stream (doc/reference/tunnel-protocol.md 1.3 and 1.4). Their content
 * comes from callers, agents and servers in their clusters, so it is counted before objects are built.
 */

/** Bound of the head of an answer, from any sender. */
export const maxHeadBytes = 1024 * 1024
/** Bound of its header lines: agentk lets 500 pass, and stock agents seldom see a hundred. */
export const maxHeadLines = 1000
/** Bound of the values of an impersonation. */
export const maxHeadValues = 10_000
/** Bound of the head of a request, that of one message: callers send 1 MiB, which is longer as a message. */
export const maxRequestHeadBytes = 4 * 1024 * 1024
/** Bound of its header lines: those that kas accepts of callers, and those that it adds. */
export const maxRequestHeadLines = 50_100
/** Bound of the values of its query: more than 1 MiB of `command=x`. */
export const maxQueryValues = 120_000

export const headerExtraName = 'gitlab.agent.kubernetes_api.rpc.HeaderExtra'
const moduleExtraName = 'gitlab.agent.gitlab_access.rpc.HeaderExtra'

/**
 * Field of `HttpRequest.Header` with the query as its caller wrote it. It is of this project, and other programs skip
 * it. They read the map beside it, which has the same query.
 */
export const rawQueryField = 7001
/** Characters of a raw query above which the map beside it is not read. */
const maxBuiltRawQuery = 16 * 1024
/** characters of a request line */
const queryText = /^[!-~]*$/

interface HeadLimits {
  readonly bytes: number
  readonly lines: number
  readonly queryValues: number
}

/** Bounds of a request to a cluster, which kas sends. */
const requestLimits: HeadLimits = {
  bytes: maxRequestHeadBytes,
  lines: maxRequestHeadLines,
  queryValues: maxQueryValues,
}
/** Bounds of a request to GitLab, which any agent may send. */
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

/** @param rawQuery - the raw query, if it came before */
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
 * Returns the content of an Any of type `name`. Another type is refused: it may carry an impersonation, and without
 * that the request would act as the agent.
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
