import { systemClock } from '../../../lib/clock.ts'
import { type Ahead, aheadByDate, clockFinding } from '../../../lib/doctor/clock-findings.ts'
import { type Found, failed, problemFindings } from '../../../lib/doctor/findings.ts'
import { checkServedChain } from '../../../lib/doctor/served-chain.ts'
import { KasError } from '../../../lib/errors.ts'
import { createLogger } from '../../../lib/log.ts'
import { noTracer } from '../../../lib/tracing/tracer.ts'
import { trustedContext } from '../../../lib/trusted-authorities.ts'
import type { CliIo } from '../../command/command.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { AgentInfos } from '../../directory/gitlab/agent-info.ts'
import { gitlabAdvice } from '../../directory/gitlab/gitlab-advice.ts'
import { GitlabClient } from '../../directory/gitlab/gitlab-client.ts'
import { gitlabProxy } from '../../directory/gitlab/gitlab-dispatcher.ts'
import { isRefusal, refusesKas } from '../../directory/gitlab/gitlab-reach.ts'
import type { PassedAnswer } from '../../directory/gitlab/passage.ts'
import { checkGitaly } from './gitaly.ts'

/** bound of all questions together. ms */
const timeoutMs = 10_000
/** bound of a connection: it ends before the questions do, so that it does not delay the end of the doctor. ms */
const connectMs = 8000
/** Token that no agent has: GitLab refuses it, once it has accepted kas' own credentials. */
const madeUpToken = 'kas-doctor'
const userAgent = 'kas-doctor'

const noLog = createLogger({ level: 'error', destination: { write: () => undefined } })
const uncounted = { waited: () => undefined, answered: () => undefined, unchecked: () => undefined }

/** Checks GitLab, its certificates, its clock, and the Gitaly that it names. */
export async function checkGitlab(
  config: KasConfig,
  options: {
    readonly env: CliIo['env']
    /** token of an agent, with which GitLab names Gitaly; undefined: none is given */
    readonly token: string | undefined
  },
): Promise<Found[]> {
  const { gitlab, directory } = config
  const { address, authentication_secret_file: secretFile } = gitlab
  if (directory.file !== undefined || address === undefined || secretFile === undefined) {
    const text = 'directory.file says who is who'
    return [{ state: 'skipped', text, blocks: text }]
  }
  const { env, token } = options
  const client = new GitlabClient(
    { log: noLog, metrics: uncounted, tracer: noTracer },
    {
      address,
      secretFile,
      caCertificateFile: gitlab.ca_certificate_file,
      refillPerSecond: 1,
      bucketSize: 5,
      userAgent,
      env,
      maxRepeats: 0,
      timeouts: { connectMs },
    },
  )
  try {
    await client.start()
    const infos = new AgentInfos({ client, log: noLog, clock: systemClock })
    const [answer, ...others] = await Promise.all([
      askGitlab(infos, address, gitlabProxy(address, env)),
      checkClock(client),
      checkChain(config, env),
      checkGitaly({ infos, config, token }),
    ])
    return [{ subject: 'gitlab.address', ...answer }, ...others.flat()]
  } catch (error) {
    return problemFindings('gitlab', error).map((one) => ({ ...one, blocks: 'GitLab cannot be asked' }))
  } finally {
    await client.stop()
  }
}

/** Compares clocks by the `Date` of an answer with any status; a proxy in front of GitLab may have set it. */
async function checkClock(client: GitlabClient): Promise<Found> {
  const subject = 'GitLab'
  const headers = ['Accept', 'application/json', 'Gitlab-Agent-Api-Request', madeUpToken]
  const passage = {
    method: 'GET',
    path: '/internal/agents/agentk/agent_info',
    target: '',
    headers,
    queue: 'agents',
  } as const
  let ahead: Ahead | undefined
  const sentAt = Date.now()
  const take = async ({ rawHeaders }: PassedAnswer) => {
    const at = rawHeaders.findIndex((name, i) => i % 2 === 0 && name.toLowerCase() === 'date')
    ahead = aheadByDate(at < 0 ? undefined : rawHeaders[at + 1], { sentAt, receivedAt: Date.now() })
  }
  try {
    await client.pass(passage, take, AbortSignal.timeout(timeoutMs))
    return clockFinding(subject, "GitLab's", ahead)
  } catch {
    return { check: 'clocks', state: 'skipped', subject, text: 'GitLab cannot be asked' } // see `gitlab`
  }
}

async function checkChain({ gitlab }: KasConfig, env: CliIo['env']): Promise<Found[]> {
  const { protocol, hostname, port } = new URL(gitlab.address ?? '')
  if (protocol !== 'https:') return []
  const at = { check: 'certificates', subject: 'gitlab.address' }
  if (gitlabProxy(gitlab.address ?? '', env) !== undefined) {
    return [{ ...at, state: 'skipped', text: 'GitLab is reached by a proxy: what it sends is not checked' }]
  }
  const keep = 'gitlab.ca_certificate_file'
  const secureContext = await trustedContext(gitlab.ca_certificate_file, keep)
  const asked = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || 443, secureContext }
  return [{ ...at, ...(await checkServedChain(asked, { keep, now: Date.now(), timeoutMs })) }]
}

/** @param proxy - proxy to GitLab; undefined: none */
async function askGitlab(infos: AgentInfos, address: string, proxy: URL | undefined): Promise<Found> {
  const by = proxy === undefined ? '' : ` by the proxy ${proxy.host}`
  try {
    await infos.ask({ token: madeUpToken, turn: { queue: 'agents' } }, AbortSignal.timeout(timeoutMs))
    return failed(`${address}: knows an agent by a token that nobody has`, 'is it GitLab that answers there?')
  } catch (cause) {
    if ((cause as Error).name === 'TimeoutError') {
      return failed(`${address}${by}: no answer within ${timeoutMs} ms`, 'check GitLab, firewalls and proxies')
    }
    const error = KasError.from(cause)
    if (refusesKas(error)) {
      const advice = 'compare gitlab.authentication_secret_file with the secret that GitLab has, and the clocks of both'
      return failed(`${address}: GitLab refuses kas itself`, advice)
    }
    if (isRefusal(error) && isGitlabs(error)) {
      return { state: 'ok', text: `${address}${by}: GitLab answers, and takes the secret of kas` }
    }
    const advice = gitlabAdvice(error) ?? 'check GitLab, and what is in front of it'
    const ofProxy = proxy !== undefined && isUnreached(error.cause)
    return failed(`${address}${by}: ${error.message}`, ofProxy ? proxyAdvice : advice)
  }
}

/** A failed connection to a proxy's host is the proxy's fault. */
const proxyAdvice = 'the proxy is not reached: see proxies; if GitLab is to be reached without it, name it in NO_PROXY'

function isUnreached(cause: unknown): boolean {
  const { code } = (cause ?? {}) as NodeJS.ErrnoException
  return /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/.test(
    code ?? '',
  )
}

/** True if the words are GitLab's own: a proxy may answer 401, too, and a GitLab without kas 404. */
function isGitlabs({ spec }: KasError): boolean {
  return spec.code === 'GITLAB_STATUS' && spec.status !== 404 && /^40[13] /.test(spec.told ?? '')
}
