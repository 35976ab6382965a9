import type { Finding } from '../../../lib/findings.ts'
import type { KasConfig } from '../../config/kas-config.ts'
import type { MemberReport, StatusReport } from '../../servers/ops-socket/status-report.ts'
import { ask } from '../status-command.ts'

/** What the replica of this configuration knows of itself and of the others. */
export async function checkReplicas({ ops, private_api }: KasConfig): Promise<Finding[]> {
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
    ? one('failed', `it is not ready: ${replica.problem}`, 'look at its log', replica.name)
    : one('ok', 'it is ready', undefined, replica.name)
  if (members) return [own, ...members.flatMap(memberFindings)]
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

function memberFindings({ name, reach, address = 'an unknown address', instances }: MemberReport): Finding[] {
  const twice =
    instances > 1
      ? [one('failed', `${instances} replicas have this name`, 'give each a cluster.name of its own', name)]
      : []
  if (reach === 'self') return twice
  if (reach === 'suspect') {
    const text = `calls may not reach it at ${address}: its link is suspect`
    return [...twice, one('note', text, 'ask again in some seconds', name)]
  }
  const link =
    reach === 'reachable'
      ? one('ok', `calls reach it at ${address}`, undefined, name)
      : one('failed', `gossip knows it, and calls do not reach it at ${address} (${reach})`, advice, name)
  return [...twice, link]
}

const advice = 'open 8155 between the two; does it run, and with the same secret?'

function one(state: Finding['state'], text: string, advice?: string, subject?: string): Finding {
  return { check: 'replicas', state, subject, text, advice }
}
