import type { Found } from '../../../lib/doctor/findings.ts'
import type { ClusterClient } from '../../../membership/discovery/kubernetes/cluster-client.ts'
import { failureText, statusOf } from '../../../membership/discovery/kubernetes/failure.ts'

/** Variable in which chart and manifests repeat the pod's grace, since kas has no right to read pods. s */
export const graceVariable = 'POD_TERMINATION_GRACE_PERIOD_SECONDS'

export interface PodGrace {
  /** name of the pod; undefined: unknown */
  readonly name: string | undefined
  /** value of `graceVariable` */
  readonly variable: string | undefined
  /** the most that kas takes to stop */
  readonly neededMs: number
}

const check = 'graces'

/** Checks the grace of the pod itself, if it may be read; else the variable of the environment. */
export async function checkGraces(client: ClusterClient, pod: PodGrace): Promise<Found> {
  const { name, neededMs } = pod
  if (!name) return graceByVariable(pod, 'POD_NAME is not set')
  try {
    const api = client.config.makeApiClient(client.library.CoreV1Api)
    const { spec } = await client.inTime(api.readNamespacedPod({ name, namespace: client.namespace }))
    const given = spec?.terminationGracePeriodSeconds ?? 0
    return compared({ given, neededMs, subject: 'terminationGracePeriodSeconds', text: `${given} s` })
  } catch (error) {
    return graceByVariable(
      pod,
      statusOf(error) === 403 ? 'kas may not read its own pod' : `its pod: ${failureText(error)}`,
    )
  }
}

/** @param reason - why the pod itself is not read */
export function graceByVariable({ variable, neededMs }: PodGrace, reason: string): Found {
  if (!variable || !/^\d{1,9}$/.test(variable)) {
    const number = variable ? `; ${graceVariable} is no number of seconds` : ''
    return { check, state: 'skipped', text: `${reason}${number}; ${graceNeeded(neededMs)}` }
  }
  const given = Number(variable)
  const text = `${given} s by what was written beside the pod's own, which is not read (${reason})`
  return compared({ given, neededMs, subject: graceVariable, text })
}

interface Compared {
  readonly given: number
  readonly neededMs: number
  readonly subject: string
  readonly text: string
}

function compared({ given, neededMs, subject, text }: Compared): Found {
  const full = `${text}; ${graceNeeded(neededMs)}`
  if (given * 1000 >= neededMs) return { check, state: 'ok', subject, text: full }
  const shorter = 'or agent.kubernetes_api.listen.shutdown_grace_period shorter'
  const advice = `make terminationGracePeriodSeconds of the pod longer, ${shorter}`
  return { check, state: 'failed', subject, text: full, advice }
}

const graceNeeded = (neededMs: number) =>
  `kas takes up to ${Math.ceil(neededMs / 1000)} s to stop, which a pod has to give it as terminationGracePeriodSeconds`
