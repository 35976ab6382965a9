import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'

/** `api`: an API server and its store; `all`: also controllers, a scheduler and a simulated node. */
export type Parts = 'api' | 'all'

const programs: Record<Parts, readonly string[]> = {
  api: ['etcd', 'kube-apiserver'],
  all: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kwok'],
}

/**
 * Returns the programs that `parts` need and that `folder` lacks.
 *
 * @param folder - by convention the value of KUBEBUILDER_ASSETS; absent: all are missing
 */
export function missingAssets(folder: string | undefined, parts: Parts): string[] {
  return programs[parts].filter((name) => !folder || !executable(join(folder, name)))
}

function executable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
