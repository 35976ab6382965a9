import { systemClock } from '../../../lib/clock.ts'
import { Counter } from '../../../lib/counter.ts'
import type { Found } from '../../../lib/doctor/findings.ts'
import { KasError } from '../../../lib/errors.ts'
import { tlsFault } from '../../../lib/tls-fault.ts'
import { trustedContext } from '../../../lib/trusted-authorities.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import type { AgentInfo, AgentInfos } from '../../directory/gitlab/agent-info.ts'
import { GitalyRepository } from '../../repositories/gitaly/gitaly-repository.ts'
import { GitalyServers } from '../../repositories/gitaly/gitaly-servers.ts'

/** bound of the questions to GitLab and to Gitaly together. ms */
const timeoutMs = 10_000
const userAgent = 'kas-doctor'
/** calls: one check needs some */
const limit = { refillPerSecond: 10, bucketSize: 10 }
const uncounted = {
  answered: () => undefined,
  waited: () => undefined,
  limited: () => undefined,
  forgotten: () => undefined,
}

/** Checks the repository of the token's agent at the Gitaly that GitLab names. */
export async function checkGitaly({
  infos,
  config,
  token,
}: {
  infos: AgentInfos
  config: KasConfig
  token: string | undefined
}): Promise<Found> {
  const check = 'gitaly'
  if (token === undefined) {
    const text = 'GitLab says where Gitaly is with the token of an agent alone'
    return { check, state: 'skipped', text, advice: 'give --agent-token-file to have it asked' }
  }
  const signal = AbortSignal.timeout(timeoutMs)
  let info: AgentInfo
  try {
    info = await infos.ask({ token, turn: { queue: 'agents' } }, signal)
  } catch (cause) {
    const text = `GitLab says nothing to that token: ${KasError.from(cause).message}`
    const advice = 'is it the token of an agent, as a whole?'
    return { check, state: 'failed', subject: '--agent-token-file', text, advice }
  }
  const { coordinates, agent } = info
  const keep = 'gitlab.ca_certificate_file'
  const servers = new GitalyServers(
    {
      clock: systemClock,
      metrics: uncounted,
      secureContext: () => trustedContext(config.gitlab.ca_certificate_file, keep),
    },
    { globalLimit: limit, serverLimit: limit, userAgent },
  )
  const repository = new GitalyRepository(coordinates, {
    server: () => servers.at(coordinates.address),
    features: () => coordinates.features,
    clock: systemClock,
    kept: new Counter({ max: 0 }), // it is read only once
  })
  const subject = `agent ${agent.name}`
  try {
    const head = await repository.head('arrivals', signal)
    const text = `${coordinates.address} has the repository of ${agent.project.path}${head ? '' : ', which is empty'}`
    return { check, state: 'ok', subject, text }
  } catch (cause) {
    const text = signal.aborted
      ? `${coordinates.address}: no answer within ${timeoutMs} ms`
      : KasError.from(cause).message
    return { check, state: 'failed', subject, text, advice: gitalyAdvice(cause) }
  } finally {
    repository.stop()
    await servers.stop()
  }
}

function gitalyAdvice(error: unknown): string {
  for (let cause = error; cause instanceof Error; { cause } = cause) {
    if (tlsFault((cause as NodeJS.ErrnoException).code) !== 'untrusted') continue
    return 'put the certificate of its authority into gitlab.ca_certificate_file'
  }
  return 'is its address, which GitLab has from gitaly_address, reached from here, and does it take the token of GitLab?'
}
