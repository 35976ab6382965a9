import { readdir, readFile } from 'node:fs/promises'
import { join, relative, resolve } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { apiVersionOf, resources } from '../api-double/resources.ts'
import type { ClusterKind } from './cluster.ts'
import type { RepositoryFiles } from './project-repository.ts'

const root = resolve(import.meta.dirname, '../../deploy/gitops-example')

/** The example of doc/guide/gitops.md, without the parts that this kind of cluster does not serve. */
export interface Example {
  readonly files: RepositoryFiles
  /** paths of manifests of kinds that the cluster does not serve */
  readonly leftOut: readonly string[]
}

/** @returns undefined for a user's own cluster, which gets only what the user has asked for */
export async function exampleFor(cluster: ClusterKind): Promise<Example | undefined> {
  if (cluster === 'named') return undefined
  const found = await readdir(root, { recursive: true, withFileTypes: true })
  const paths = found.filter((entry) => entry.isFile() && entry.name.endsWith('.yaml'))
  const contents = await Promise.all(
    paths.map(async ({ parentPath, name }) => {
      const path = join(parentPath, name)
      return [relative(root, path), await readFile(path, 'utf8')] as const
    }),
  )
  const isLeftOut = ([path, text]: readonly [string, string]) =>
    cluster === 'double' && path.startsWith('manifests/') && !isServed(text)
  const leftOut = contents.filter(isLeftOut).map(([path]) => path)
  return { files: Object.fromEntries(contents.filter(([path]) => !leftOut.includes(path))), leftOut }
}

/** Returns true if the double serves all kinds of the text. */
function isServed(text: string): boolean {
  return parseAllDocuments(text).every((document) => {
    const { apiVersion, kind } = document.toJS() as { apiVersion: string; kind: string }
    const served = resources.find((resource) => resource.kind === kind && apiVersionOf(resource) === apiVersion)
    return served?.verbs.includes('patch')
  })
}
