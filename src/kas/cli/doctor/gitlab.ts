import { systemClock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import { type Finding, problemFindings } from '../../../lib/findings.ts'
import { createLogger } from '../../../lib/log.ts'
import { noTracer } from '../../../lib/tracing/tracer.ts'
import type { KasConfig } from '../../config/kas-config.ts'
import { AgentInfos } from '../../directory/gitlab/agent-info.ts'
import { gitlabAdvice } from '../../directory/gitlab/gitlab-advice.ts'
import { GitlabClient } from '../../directory/gitlab/gitlab-client.ts'
import { isRefusal, refusesKas } from '../../directory/gitlab/gitlab-reach.ts'
import type { CliIo } from '../command.ts'

/** of all that is asked. ms */
const timeoutMs = 10_000
/** No agent has it: GitLab says no to it, once it has taken kas' own word. */
const madeUpToken = 'kas-doctor'

const silent = createLogger({ level: 'error', destination: { write: () => undefined } })
const uncounted = { waited: () => undefined, answered: () => undefined, unchecked: () => undefined }

/** Asks GitLab whose a token is that nobody has, as kas asks it of an agent's. */
export async function checkGitlab({ gitlab, directory }: KasConfig, env: CliIo['env']): Promise<Finding[]> {
  const { address, authentication_secret_file: secretFile } = gitlab
  if (directory.file !== undefined || address === undefined || secretFile === undefined) {
    return [{ check: 'gitlab', state: 'skipped', text: 'directory.file says who is who' }]
  }
  const client = new GitlabClient(
    { log: silent, metrics: uncounted, tracer: noTracer },
    {
      address,
      secretFile,
      caCertificateFile: gitlab.ca_certificate_file,
      refillPerSecond: 1,
      bucketSize: 2,
      userAgent: 'kas-doctor',
      env,
      maxRepeats: 0,
    },
  )
  try {
    await client.start()
    return [{ check: 'gitlab', subject: 'gitlab.address', ...(await look(client, address)) }]
  } catch (error) {
    return problemFindings('gitlab', error)
  } finally {
    await client.stop()
  }
}

type Look = Omit<Finding, 'check' | 'subject'>

async function look(client: GitlabClient, address: string): Promise<Look> {
  const infos = new AgentInfos({ client, log: silent, clock: systemClock })
  try {
    await infos.ask({ token: madeUpToken, turn: { queue: 'agents' } }, AbortSignal.timeout(timeoutMs))
    return failed(`${address}: knows an agent by a token that nobody has`, 'is it GitLab that answers there?')
  } catch (cause) {
    if ((cause as Error).name === 'TimeoutError') {
      return failed(`${address}: no answer within ${timeoutMs} ms`, 'look at GitLab, firewalls and proxies')
    }
    const error = KasError.from(cause)
    if (refusesKas(error)) {
      const advice = 'compare gitlab.authentication_secret_file with the secret that GitLab has, and the clocks of both'
      return failed(`${address}: GitLab refuses kas itself`, advice)
    }
    if (isRefusal(error) && isGitlabs(error)) {
      return { state: 'ok', text: `${address}: GitLab answers, and takes the secret of kas` }
    }
    return failed(
      `${address}: ${error.message}`,
      gitlabAdvice(error) ?? 'look at GitLab, and at what is in front of it',
    )
  }
}

const failed = (text: string, advice: string): Look => ({ state: 'failed', text, advice })

/** In its own words: a front may say 401, too, and a GitLab without kas 404. */
function isGitlabs({ spec }: KasError): boolean {
  return spec.code === 'GITLAB_STATUS' && spec.status !== 404 && /^40[13] /.test(spec.told ?? '')
}
