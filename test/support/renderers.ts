import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { KeptOutput } from '../../src/agentk/modules/gitops/render/program-output.ts'
import { type ProgramRun, RendererProcesses } from '../../src/agentk/modules/gitops/render/renderer-process.ts'

export interface InstalledRenderer {
  /** name such as `helm 3.17.4` */
  readonly name: string
  /** folder for PATH */
  readonly folder: string
}

/** Versions of kustomize and helm: `kustomize-5.8.0/kustomize`, `helm-3.17.4/helm`, … in the folder KAS_RENDERERS. */
export function installedRenderers(program: 'kustomize' | 'helm'): InstalledRenderer[] {
  const root = process.env.KAS_RENDERERS ?? ''
  const names = root !== '' && existsSync(root) ? readdirSync(root) : []
  return names
    .filter((name) => name.startsWith(`${program}-`) && existsSync(join(root, name, program)))
    .map((name) => ({ name: name.replace('-', ' '), folder: join(root, name) }))
}

/** Returns the output of a program that runs as in the renderer, without the checks before it. @throws RenderFailure */
export async function printedBy(run: ProgramRun, signal: AbortSignal): Promise<Buffer> {
  const output = new KeptOutput(64 * 1024 * 1024)
  const processes = new RendererProcesses({ path: '', keepsNetwork: true, maxMemoryKib: 1024 * 1024 })
  await processes.run(run, output, signal)
  return Buffer.from(output.bytes)
}
