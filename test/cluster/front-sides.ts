import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { kubeconfigText } from '../../dev/control-plane/kubeconfig.ts'
import { type Identity, identities, type KubectlSide } from '../support/kubectl-side.ts'
import { createSide } from '../support/kubectl-stack.ts'
import { grpcAddress, webSocketAddress } from './front-cases.ts'
import { bearerFor, kubernetesPath } from './front-client.ts'
import type { RunningFront } from './front-program.ts'
import type { FrontedReplicas } from './fronted-replicas.ts'

export interface Behind {
  readonly replicas: FrontedReplicas
  readonly controlPlane: ControlPlane
}

/**
 * Two agents of one cluster, the first through the front by WebSocket and the second by gRPC. @returns kubectl through
 * the front for each
 */
export async function sidesThrough(
  front: RunningFront,
  agents: readonly [number, number],
  { replicas, controlPlane }: Behind,
): Promise<KubectlSide[]> {
  const { processes, ca } = replicas
  const addresses = [webSocketAddress(front), grpcAddress(front)]
  return await Promise.all(
    agents.map(async (agent, i) => {
      await replicas.startAgentk(agent, addresses[i] as string, { kubeconfig: controlPlane.kubeconfig })
      const path = join(processes.folder, `user-of-${agent}.kubeconfig`)
      const user = { token: bearerFor(agent).replace('Bearer ', '') }
      await writeFile(path, kubeconfigText({ server: `${front.url}${kubernetesPath}`, authority: ca, user }))
      const kubeconfigs = Object.fromEntries(identities.map((identity) => [identity, path]))
      return await createSide(`agent-${agent}`, kubeconfigs as Record<Identity, string>, { processes, controlPlane })
    }),
  )
}
