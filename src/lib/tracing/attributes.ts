import { Code, type KasError } from '../errors.ts'
import type { SpanAttributes } from './tracer.ts'

/** Attributes by OpenTelemetry's semantic conventions, and `agent_id` as upstream names it. */

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'CONNECT', 'OPTIONS', 'TRACE', 'PATCH', 'QUERY'])
const codeNames = new Map<number, string>(Object.entries(Code).map(([name, code]) => [code, name]))
/** gRPC statuses that mean that the server failed, not that the caller was wrong */
const serverFailures: ReadonlySet<number> = new Set([
  Code.UNKNOWN,
  Code.DEADLINE_EXCEEDED,
  Code.UNIMPLEMENTED,
  Code.INTERNAL,
  Code.UNAVAILABLE,
  Code.DATA_LOSS,
])
const other = '_OTHER'

/** Methods beyond those of HTTP's standards are counted as one. */
export function httpMethodAttributes(method: string): { name: string; attributes: SpanAttributes } {
  if (methods.has(method)) return { name: method, attributes: { 'http.request.method': method } }
  const attributes = { 'http.request.method': other, 'http.request.method_original': method }
  return { name: 'HTTP', attributes }
}

export function httpStatusAttributes(statusCode: number): SpanAttributes {
  return { 'http.response.status_code': statusCode }
}

/** True if a client did not get what it asked for, or if a server says that it failed. */
export function isHttpFailure(kind: 'server' | 'client', statusCode: number): boolean {
  return statusCode >= (kind === 'client' ? 400 : 500)
}

/**
 * @param method - `/package.Service/Method`
 * @param isKnown - false: anyone may have made it up; such methods are counted as one
 */
export function rpcMethodAttributes(method: string, isKnown: boolean): { name: string; attributes: SpanAttributes } {
  const name = method.slice(1)
  const system = { 'rpc.system.name': 'grpc' }
  if (isKnown) return { name, attributes: { ...system, 'rpc.method': name } }
  return { name: 'grpc', attributes: { ...system, 'rpc.method': other, 'rpc.method_original': name } }
}

/** @param grpcCode - 0: OK */
export function rpcStatusAttributes(grpcCode: number): SpanAttributes {
  return { 'rpc.status_code': codeName(grpcCode) }
}

/** Cause of a span's failure: the code of kas, or the status from elsewhere. */
export function failureOf(error: KasError): string {
  return error.code === 'STATUS' ? codeName(error.grpcCode) : error.code
}

/** True if a status makes the span a failed one. A caller that left, or a refusal by the server, is no failure. */
export function isRpcFailure(kind: 'server' | 'client', grpcCode: number): boolean {
  if (grpcCode === Code.OK || grpcCode === Code.CANCELLED) return false
  return kind === 'client' || serverFailures.has(grpcCode)
}

/** Returns the id as a number, as upstream does, or as a text if a number cannot hold it exactly. */
export function agentAttributes(agentId: bigint): SpanAttributes {
  return { agent_id: agentId <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(agentId) : String(agentId) }
}

/** @param port - 0: unknown */
export function serverAttributes(host: string, port: number): SpanAttributes {
  return { 'server.address': host, ...(port > 0 ? { 'server.port': port } : {}) }
}

/** Attributes of the server in `url`. */
export function urlServerAttributes({ hostname, port, protocol }: URL): SpanAttributes {
  return serverAttributes(hostname.replace(/^\[|\]$/g, ''), Number(port) || (protocol === 'https:' ? 443 : 80))
}

function codeName(grpcCode: number): string {
  return codeNames.get(grpcCode) ?? String(grpcCode)
}
