import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

export interface InstalledRenderer {
  /** as `helm 3.17.4` */
  readonly name: string
  /** for PATH */
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
