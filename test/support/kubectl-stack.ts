import { existsSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { missingAssets } from '../../dev/control-plane/assets.ts'
import type { ControlPlane } from '../../dev/control-plane/control-plane.ts'
import { Kubectl } from './kubectl.ts'
import { type Identity, identities, type KubectlSide } from './kubectl-side.ts'
import type { Processes } from './processes.ts'
import type { Stack } from './stack.ts'

/** Programs that tests of kubectl need, and the reason to skip the tests without them. */
export const assets = process.env.KUBEBUILDER_ASSETS ?? ''
const missing = [...missingAssets(assets, 'all'), ...(existsSync(join(assets, 'kubectl')) ? [] : ['kubectl'])]
export const skip = missing.length > 0 && `needs ${missing.join(', ')}`

/** Creates a side through a stack, with a namespace of the side's name. */
export function throughStack(name: string, stack: Stack, components: SideComponents): Promise<KubectlSide> {
  const kubeconfigs = Object.fromEntries(identities.map((identity) => [identity, stack.kubeconfig(identity)]))
  return createSide(name, kubeconfigs as Record<Identity, string>, components)
}

export interface SideComponents {
  processes: Processes
  controlPlane: ControlPlane
}

/** Creates a side with a namespace of its name. */
export async function createSide(
  name: string,
  kubeconfigs: Record<Identity, string>,
  { processes, controlPlane }: SideComponents,
): Promise<KubectlSide> {
  const folder = join(processes.folder, name)
  await mkdir(folder)
  const kubectl = new Kubectl({ processes, assets }, { kubeconfig: kubeconfigs.agent, namespace: name })
  await kubectl.ok(['create', 'namespace', name])
  const { admin } = controlPlane
  return { name, kubectl, kubeconfigs, admin, folder, writeLogLine: (line) => controlPlane.writeLogLine(line) }
}
