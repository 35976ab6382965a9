import { clockFinding } from '../../../lib/doctor/clock-findings.ts'
import type { Found } from '../../../lib/doctor/findings.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import type { LinkReport, LinksReport, ReplicaLinksReport } from '../../peers/replica-links.ts'
import type { MemberReport, StatusReport } from '../../servers/ops-socket/status-report.ts'
import { ask } from '../status-command.ts'

/** Checks the state of this configuration's replica, and each replica's report about its links to the others. */
export async function checkReplicas({ ops, private_api }: KasConfig): Promise<Found[]> {
  const { socket } = ops
  if (socket === undefined) {
    return [one('skipped', 'ops.socket is not set: a running replica cannot be asked', 'set ops.socket')]
  }
  let report: StatusReport
  try {
    report = JSON.parse(await ask(socket, '/status')) as StatusReport
  } catch (error) {
    return [one('failed', (error as Error).message, 'start kas, or say --pre', 'ops.socket')]
  }
  const { replica, members } = report
  const own = replica.problem
    ? one('failed', `it is not ready: ${replica.problem}`, 'read its log', replica.name)
    : one('ok', 'it is ready', undefined, replica.name)
  if (members)
    return [own, ...members.flatMap(twins), ...versions(replica.version, members), ...(await checkLinks(socket))]
  const isShared = private_api.listen.authentication_secret_file !== undefined && private_api.listen.network !== 'unix'
  const alone = isShared
    ? one(
        'failed',
        'it is alone, and the configuration wants others',
        'start it again: it has read another',
        replica.name,
      )
    : one('skipped', 'it is alone by its configuration: there are no others to reach')
  return [own, alone]
}

function twins({ name, instances }: MemberReport): Found[] {
  if (instances < 2) return []
  return [one('failed', `${instances} replicas have this name`, 'give each a cluster.name of its own', name)]
}

function versions(own: string, members: readonly MemberReport[]): Found[] {
  const others = members.filter(({ version }) => version !== '' && version !== own)
  return others.map(({ name, version }) =>
    one('note', `it is of version ${version}, the asked one of ${own}`, 'end the upgrade, if none is under way', name),
  )
}

async function checkLinks(socket: string): Promise<Found[]> {
  let report: LinksReport
  try {
    report = JSON.parse(await ask(socket, '/links')) as LinksReport
  } catch (error) {
    return [one('skipped', `which replicas reach which is not known: ${(error as Error).message}`)]
  }
  const { replicas, silent, failingSources } = report
  const clocks = replicas.flatMap(({ name, ahead }) => (ahead ? [clockFinding(name, 'its', ahead)] : []))
  const unknown = silent.map(({ name, reason }) =>
    one('note', `it does not say whom it reaches: ${reason}`, 'ask there, by kas doctor', name),
  )
  const [own] = replicas
  const isAlone = own && own.links.length === 0 && own.unanswered.length === 0
  const lonely = isAlone
    ? [one('note', 'it knows no other replica', 'if there are to be others, check cluster.discovery', own.name)]
    : []
  const sources = failingSources.map(({ name, reason }): Found => {
    const text = `${reason}; what it found before is kept`
    const advice = 'until it answers, replicas that are new are not found by it'
    return { check: 'discovery', state: 'failed', subject: `source ${name}`, text, advice }
  })
  return [...sources, ...replicas.flatMap(linkFindings), ...lonely, ...unknown, ...clocks]
}

function linkFindings({ name, links, unanswered }: ReplicaLinksReport): Found[] {
  const faults = [
    ...links.flatMap((link) => [...callFaults(name, link), ...gossipFaults(name, link)]),
    ...unanswered.map(({ address, dials, reason }) => {
      const text = `no replica with its secret answers at ${address}, which discovery lists: ${reason}`
      return dials < sureDials ? one('note', text, again, name) : one('failed', text, adviceFor(reason), name)
    }),
  ]
  const reached = links.filter((link) => link.reach === 'reachable' && link.gossip)
  if (reached.length === 0) return faults
  const names = reached.map((link) => `${link.name} at ${link.address ?? 'an unknown address'}`).join(', ')
  return [one('ok', `calls reach, and gossip is connected to, ${names}`, undefined, name), ...faults]
}

/** dials in a row: a replica that starts, or is busy, may miss the first */
const sureDials = 3
const again = 'ask again in some seconds'
const openCalls = 'open 8155 between the two; does it run, and with the same secret?'
const openGossip =
  'open 8156 between the two, in one direction at least, and see that discovery lists each replica at each'

function callFaults(from: string, { name, address = 'an unknown address', reach }: LinkReport): Found[] {
  if (reach === 'reachable') return []
  if (reach === 'suspect')
    return [one('note', `calls may not reach ${name} at ${address}: the link is suspect`, again, from)]
  return [one('failed', `calls do not reach ${name} at ${address} (${reach})`, openCalls, from)]
}

function gossipFaults(from: string, { name, gossip }: LinkReport): Found[] {
  if (gossip) return []
  return [one('failed', `it has no connection for gossip with ${name} (8156)`, openGossip, from)]
}

/**
 * Advice for a failed dial. An answer with a refusal comes from another secret, or from another program; no answer
 * means no connection.
 */
function adviceFor(reason: string): string {
  const isUnanswered =
    /connection refused|ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ETIMEDOUT|no answer in time|timed out/i.test(reason)
  const where = 'or take it from cluster.discovery'
  return isUnanswered
    ? `does a replica run there, and is 8156 open to it? ${where}`
    : `compare private_api.listen.authentication_secret_file at both, by its fingerprint here; ${where}`
}

function one(state: Found['state'], text: string, advice?: string, subject?: string): Found {
  return { state, subject, text, advice }
}
