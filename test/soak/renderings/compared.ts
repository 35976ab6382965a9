import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import type { RepositoryFile } from '../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { FileSet } from '../../../src/agentk/modules/gitops/render/file-set.ts'
import { helmArguments } from '../../../src/agentk/modules/gitops/render/helm.ts'
import { Renderer } from '../../../src/agentk/modules/gitops/render/renderer.ts'
import { RenderFailure } from '../../../src/agentk/modules/gitops/render/renderer-process.ts'
import { printedBy } from '../../support/renderers.ts'

/** The part of a commit's files that is rendered. */
export type Rendering = { readonly kustomize: string } | { readonly helm: string }

/** Comparison of the program's own output with that of agentk's renderer. */
export interface Compared {
  /** undefined: the program fails */
  readonly alone: Buffer | undefined
  /** the renderer's output is the same, byte by byte */
  readonly isSame: boolean
  readonly problems: readonly string[]
}

const cluster = {
  version: 'v1.35.4',
  apiVersions: ['apps/v1', 'monitoring.coreos.com/v1', 'networking.k8s.io/v1/Ingress'],
}
const namespace = 'default'
const maxFileBytes = 2 * 1024 * 1024

/** Files of a folder as a commit has them, without links. Paths are relative to `root`. */
export async function filesIn(root: string, folder: string): Promise<RepositoryFile[]> {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true })
  const paths = entries
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.go'))
    .map(({ parentPath, name }) => join(parentPath, name))
  const files = await Promise.all(
    paths.map(async (path) => ({ path: relative(root, path), data: await readFile(path) })),
  )
  return files.filter(({ data }) => data.length <= maxFileBytes)
}

/** Renders the files with the program in `folder` of a PATH, with the usual network, and with the renderer. */
export async function compare(
  files: readonly RepositoryFile[],
  rendering: Rendering,
  path: string,
  signal: AbortSignal,
): Promise<Compared> {
  const helm = 'helm' in rendering ? { chart: rendering.helm, values: [], release: 'release' } : undefined
  const args = helm
    ? helmArguments(new FileSet(files), helm, namespace, cluster)
    : ['build', `./${(rendering as { kustomize: string }).kustomize}`]
  const alone = await renderedAlone(files, { path, name: helm ? 'helm' : 'kustomize', args }, signal)
  if (alone === undefined) return { alone, isSame: false, problems: [] }
  const options = helm ? { helm } : { kustomize: { path: (rendering as { kustomize: string }).kustomize } }
  const rendered = await new Renderer({ path: `${path}:${process.env.PATH}` }).render(
    files,
    { ...options, defaultNamespace: namespace },
    cluster,
    signal,
  )
  const isSame = rendered.files.length === 1 && alone.equals(rendered.files[0]?.data ?? new Uint8Array())
  return { alone, isSame, problems: rendered.problems.map(({ file, line, text }) => `${file}:${line}: ${text}`) }
}

/** @returns undefined: the program fails */
async function renderedAlone(
  files: readonly RepositoryFile[],
  { path, name, args }: { readonly path: string; readonly name: string; readonly args: readonly string[] },
  signal: AbortSignal,
): Promise<Buffer | undefined> {
  const base = await mkdtemp(join(tmpdir(), 'rendered-alone-'))
  try {
    for (const file of files) {
      await mkdir(dirname(join(base, 'files', file.path)), { recursive: true })
      await writeFile(join(base, 'files', file.path), file.data)
    }
    const run = { program: join(path, name), args, folder: join(base, 'files'), home: base }
    return await printedBy(run, signal)
  } catch (error) {
    if (error instanceof RenderFailure) return undefined
    throw error
  } finally {
    await rm(base, { recursive: true, force: true })
  }
}
