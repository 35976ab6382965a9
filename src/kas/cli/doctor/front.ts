import { once } from 'node:events'
import { type Finding, problemFindings } from '../../../lib/doctor/findings.ts'
import { checkServedChain } from '../../../lib/doctor/served-chain.ts'
import { KasError } from '../../../lib/errors.ts'
import { tlsFault } from '../../../lib/tls-fault.ts'
import { trustedContext } from '../../../lib/trusted-authorities.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { type FrontCheckAnswer, unknownInstance } from '../../servers/front-check-answer.ts'
import type { StatusReport } from '../../servers/ops-socket/status-report.ts'
import { ask } from '../status-command.ts'
import { askFront, echoes, type FrontAnswer, type FrontPlace, type FrontQuestion, openFront } from './front-request.ts'

/** bound of each question. ms */
const timeoutMs = 10_000
const flag = '--kubernetes-api-url'
const caFlag = '--kubernetes-api-ca-file'

export interface FrontOptions {
  /** URL of kas for kubectl; undefined: it is not given */
  readonly url: URL | undefined
  readonly caFile: string | undefined
  /** undefined: not asked for */
  readonly idleSeconds: number | undefined
  /** true: no replica is asked */
  readonly isPre: boolean
}

/**
 * Checks kubectl's way through the proxies in front of kas: address, path, Upgrade, long heads, bodies, and the
 * caller's address as kas sees it.
 */
export async function checkFront(config: KasConfig, options: FrontOptions): Promise<Finding[]> {
  const { url, caFile, idleSeconds, isPre } = options
  if (url === undefined) return skipped(`kubectl's way to kas is not checked without ${flag}`)
  if (!config.agent.kubernetes_api) return skipped('agent.kubernetes_api is not set: kas does not serve kubectl')
  let secureContext: FrontPlace['secureContext']
  try {
    secureContext = url.protocol === 'https:' ? await trustedContext(caFile, caFlag) : undefined
  } catch (error) {
    const advice = 'write the certificate of the authority there, in PEM'
    return problemFindings('front', error).map((one) => ({ ...one, advice }))
  }
  const { instance, reason } = await runningReplica(config, isPre)
  const place: FrontPlace = { url, secureContext, instance }
  const [{ finding, kas }, chain] = await Promise.all([reach(place, config), chainOf(place)])
  if (!kas) {
    const text = finding.state === 'failed' ? 'kas is not reached' : `no stream is opened${reason}`
    return [finding, idle('skipped', text), ...chain]
  }
  const found = await Promise.all([
    ...trials.map((trial) => tried(place, trial)),
    checkUpgrade(place),
    checkIdle(place, idleSeconds),
  ])
  return [finding, callerFinding(kas, config), ...found, ...chain]
}

function skipped(text: string): Finding[] {
  const advice = `give ${flag} https://kas.example.com/k8s-proxy, the server of a kubeconfig, to have it tried`
  return [one('skipped', text, advice), idle('skipped', text)]
}

interface RunningReplica {
  /** its id, by which kas lets this doctor in; absent: it is unknown */
  readonly instance?: string | undefined
  /** end of a sentence: why the id is unknown */
  readonly reason: string
}

async function runningReplica({ ops }: KasConfig, isPre: boolean): Promise<RunningReplica> {
  if (isPre) return { reason: ': --pre: no replica is asked' }
  if (ops.socket === undefined) return { reason: ': ops.socket is not set' }
  try {
    const { instance } = JSON.parse(await ask(ops.socket, '/status')) as Partial<StatusReport>
    return { instance, reason: '' }
  } catch (error) {
    return { reason: `: ${(error as Error).message}` }
  }
}

/** @returns `kas`: undefined if kas is not reached, or does not let this doctor in */
async function reach(place: FrontPlace, config: KasConfig): Promise<{ finding: Finding } & Pick<FrontAnswer, 'kas'>> {
  const { url } = place
  try {
    const answer = await askFront(place, { signal: AbortSignal.timeout(timeoutMs) })
    return { finding: reachFinding(place, answer, config), kas: answer.kas }
  } catch (error) {
    return { finding: one('failed', `${url.host}: ${textOf(error)}`, connectionAdvice(error, url)), kas: undefined }
  }
}

function reachFinding({ url, instance }: FrontPlace, answer: FrontAnswer, { agent }: KasConfig): Finding {
  const { status, location, kas, refusal } = answer
  const at = `${url.host}${url.pathname}`
  if (kas) return one('ok', `${at}: kas answers`)
  if (refusal === undefined) {
    const to = location === undefined ? '' : `, and leads to ${location}`
    return one('failed', `${at}: what answers is not kas: status ${status}${to}`, statusAdvice(status, url))
  }
  if (refusal.includes('expected prefix')) {
    const prefix = agent.kubernetes_api?.url_path_prefix
    const advice = `let the front pass the path on as it is, or compare it with agent.kubernetes_api.url_path_prefix (${prefix})`
    return one('failed', `${at}: kas answers that the path does not begin with its prefix`, advice)
  }
  if (/no Authorization header|no valid credentials/.test(refusal)) {
    const advice = 'let the front pass Authorization on: kubectl says by it who calls'
    return one('failed', `${at}: kas gets no Authorization header`, advice)
  }
  if (instance === undefined && status === 401)
    return one('ok', `${at}: kas answers; Upgrade, long heads and bodies are not tried`)
  if (refusal.includes(unknownInstance)) {
    const advice =
      'does it lead to the replicas of this configuration, which have one secret in private_api.listen, or is the secret being changed?'
    return one('failed', `${at}: another kas answers`, advice)
  }
  const text = `${at}: kas answers, and does not let doctor in: status ${status}`
  const advice = 'ask again when all replicas have this version: Upgrade, long heads and bodies are not tried'
  return one('note', text, advice)
}

function callerFinding({ client, sender, isTrusted, isForwarded }: FrontCheckAnswer, { agent }: KasConfig): Finding {
  const subject = 'agent.kubernetes_api.listen.trusted_proxies'
  const hasTrusted = (agent.kubernetes_api?.listen.trusted_proxies ?? []).length > 0
  if (isForwarded && !isTrusted && client === sender) {
    const text = `all callers have the address ${sender} of the front, whose X-Forwarded-For is not trusted`
    return { ...one('note', text, `name ${sender} there, or its network`), subject }
  }
  if (isTrusted && !isForwarded) {
    const text = `the front at ${sender} is trusted, and sends no X-Forwarded-For: callers have its address`
    return { ...one('note', text, 'let it add X-Forwarded-For'), subject }
  }
  const by = client === sender ? '' : ` by the front at ${sender}`
  return { ...one('ok', `this call is from ${client ?? 'a Unix socket'}${by}`), ...(hasTrusted && { subject }) }
}

interface Trial extends Omit<FrontQuestion, 'signal'> {
  readonly what: string
  readonly advice: string
}

/** Size of one header line, as long as some tokens. Proxies accept 8 KiB and more by default. */
const longHeadBytes = 7 * 1024
/** Size of a request of kubectl apply with a large CustomResourceDefinition. */
const longBodyBytes = 1.5 * 1024 * 1024

const trials: readonly Trial[] = [
  {
    what: `a request with a head of ${longHeadBytes / 1024} KiB`,
    advice:
      'some tokens are as long: large_client_header_buffers of nginx, tune.bufsize of HAProxy, max_request_headers_kb of Envoy',
    headers: { 'X-Kas-Doctor': 'x'.repeat(longHeadBytes) },
  },
  {
    what: `a body of ${longBodyBytes / 1024 / 1024} MiB`,
    advice: 'kubectl apply sends as much: client_max_body_size of nginx, proxy-body-size of its Ingress, or the like',
    bodyBytes: longBodyBytes,
  },
]

async function tried(place: FrontPlace, { what, advice, ...question }: Trial): Promise<Finding> {
  try {
    const { status, kas, refusal } = await askFront(place, { ...question, signal: AbortSignal.timeout(timeoutMs) })
    if (refusal !== undefined) return one('skipped', `${what}: ${refusal}`) // for example, too many doctors at once
    if (!kas) return one('failed', `${what} does not come to kas: status ${status}`, advice)
    if (kas.bytes === (question.bodyBytes ?? 0)) return one('ok', `${what} comes to kas`)
    return one('failed', `${what} does not come to kas whole: ${kas.bytes} bytes of the body have come`, advice)
  } catch (error) {
    return one('failed', `${what} does not come to kas: ${textOf(error)}`, advice)
  }
}

const tooMany = 429
const upgradeAdvice =
  'exec, attach and port-forward need it: proxy_http_version 1.1 and proxy_set_header Upgrade and Connection of nginx, upgrade_configs of Envoy; HTTP/2 between the front and kas cannot carry it'

async function checkUpgrade(place: FrontPlace): Promise<Finding> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const socket = await openFront(place, signal)
    if (socket === tooMany) return one('skipped', 'too many ask kas at once, or the front counts requests')
    if (typeof socket === 'number')
      return one('failed', `an Upgrade to a WebSocket is answered with status ${socket}`, upgradeAdvice)
    if (await echoes(socket, signal)) return one('ok', 'an Upgrade to a WebSocket comes to kas')
    return one('failed', 'a WebSocket is opened, and closed by what is between', upgradeAdvice)
  } catch (error) {
    return one('failed', `an Upgrade to a WebSocket fails: ${textOf(error)}`, upgradeAdvice)
  }
}

const idleAdvice =
  'let what is in front of kas wait longer: proxy_read_timeout of nginx, timeout tunnel of HAProxy, the idle timeout of a load balancer; or kas itself was stopped meanwhile'

/** Checks a stream without data from either side, like a followed log. */
async function checkIdle(place: FrontPlace, seconds: number | undefined): Promise<Finding> {
  if (seconds === undefined) {
    const advice = '--idle 70 is longer than what most fronts cut after'
    return { ...idle('skipped', 'whether an idle stream lives is not tried without --idle SECONDS'), advice }
  }
  try {
    const socket = await openFront(place, AbortSignal.timeout(timeoutMs))
    if (typeof socket === 'number') return idle('skipped', 'there is no WebSocket') // see the finding of `front`
    const begin = performance.now()
    await once(socket, 'close', { signal: AbortSignal.timeout(seconds * 1000) }).catch(() => undefined)
    if (await echoes(socket, AbortSignal.timeout(timeoutMs)).catch(() => false))
      return idle('ok', `an idle stream has lived for ${seconds} s`)
    const afterS = Math.min(seconds, Math.round((performance.now() - begin) / 1000))
    return { ...idle('failed', `an idle stream was cut after ${afterS} s`), advice: idleAdvice }
  } catch (error) {
    return idle('skipped', `there is no WebSocket: ${textOf(error)}`)
  }
}

async function chainOf({ url, secureContext }: FrontPlace): Promise<Finding[]> {
  if (secureContext === undefined) return []
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const asked = { host, port: Number(url.port) || 443, secureContext }
  const found = await checkServedChain(asked, { keep: caFlag, now: Date.now(), timeoutMs })
  return [{ check: 'certificates', subject: flag, ...found }]
}

function connectionAdvice(error: unknown, { host, hostname, protocol }: URL): string {
  const { code: given } = error as NodeJS.ErrnoException
  const code = typeof given === 'string' ? given : undefined // a time-out has a number
  switch (tlsFault(code)) {
    case 'untrusted':
      return `if its authority is private, give ${caFlag}, and kubeconfigs the same: kas kubeconfig --ca`
    case 'name':
      return `use a name that the certificate of ${host} is for`
    case 'dates':
      return 'compare the clocks of both machines with the dates of the certificate'
    case 'no TLS':
      return `no TLS is spoken at ${host}: is it http://, or another port?`
    default:
  }
  if (code === 'ECONNREFUSED') return `nothing listens at ${host}: does the front run, and is the port right?`
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return `does DNS know ${hostname} from here?`
  if (protocol === 'http:' && (code === 'ECONNRESET' || code?.startsWith('HPE_'))) return `${host} may want https://`
  return `is there a way from here to ${host}? A front may be reached from outside alone`
}

function statusAdvice(status: number, { host, pathname }: URL): string {
  if (status >= 300 && status < 400) return 'kubectl is not to be led elsewhere: give the URL in full, with https://'
  if (status === 400) return `${host} may want https://`
  if (status === 401 || status === 403) return 'let the front pass requests of kubectl on without a login of its own'
  if (status === 502 || status === 503 || status === 504)
    return 'the front does not reach kas: does kas run, is 8154 open to the front, and is TLS spoken there at both or at neither?'
  return `does the front lead ${pathname} to port 8154 of kas?`
}

function textOf(error: unknown): string {
  const { name, message, code } = error as NodeJS.ErrnoException
  if (name === 'TimeoutError' || name === 'AbortError') return `no answer within ${timeoutMs} ms`
  return message || code || KasError.from(error).message
}

function one(state: Finding['state'], text: string, advice?: string): Finding {
  return { check: 'front', state, subject: flag, text, advice }
}

function idle(state: Finding['state'], text: string): Finding {
  return { check: 'idle', state, text, ...(state === 'skipped' ? {} : { subject: flag }) }
}
