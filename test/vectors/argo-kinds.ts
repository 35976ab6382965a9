import { execFileSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { hasArgoRule } from '../../src/agentk/health/argo/argo.ts'
import type { CustomRuleSource } from '../../src/agentk/health/custom/custom-rule-schema.ts'
import { isLike } from '../../src/agentk/health/custom/kind-pattern.ts'
import type { KubernetesObject } from '../../src/kubernetes/object.ts'
import { readVectors, type Vector } from './compare.ts'

/** Kinds that Argo CD judges: folders of its `resource_customizations`, `group/Kind`, with `_` for any. */
export interface ArgoList {
  /** source of the list */
  readonly name: string
  /** patterns in our form: `*` is any; the core group has no name */
  readonly kinds: readonly string[]
  readonly vectors: readonly Vector[]
}

const modulePath = 'github.com/argoproj/argo-cd/v3'
export const moduleVersion = 'v3.6.1'

/** Returns the kinds in a folder of shared vectors. */
export function listOfVectors(folder: string): ArgoList {
  const vectors = ['argo-custom', 'argo-core'].flatMap((name) => readVectors(join(folder, `${name}.json`)))
  const kinds = vectors.map(({ name }) => kindOfFolder(name.split('/').slice(1, 3).join('/')))
  return { name: 'KAS_VECTORS', kinds: [...new Set(kinds)].sort(), vectors }
}

/**
 * Returns the kinds of the Go module, which the go command fetches if it is missing.
 *
 * @throws Error of the go command
 */
export function listOfModule(version = moduleVersion): ArgoList {
  const root = join(folderOfModule(version), 'resource_customizations')
  const kinds = globSync('*/*/health.lua', { cwd: root }).map((file) => kindOfFolder(dirname(file)))
  return { name: `${modulePath}@${version}`, kinds: kinds.sort(), vectors: vectorsBelow(root) }
}

/** @returns kinds of a list without a rule of ours */
export function kindsWithoutRule(kinds: readonly string[], rules: readonly CustomRuleSource[]): string[] {
  return kinds.filter((kind) => !hasArgoRule(kind) && !rules.some((rule) => isLike(rule.kind, kind)))
}

function kindOfFolder(folder: string): string {
  return folder.replaceAll('_', '*').replace(/^core\//, '')
}

function folderOfModule(version: string): string {
  const go = (...args: readonly string[]) =>
    execFileSync('go', args, { cwd: tmpdir(), encoding: 'utf8', stdio: 'pipe' })
  try {
    return (JSON.parse(go('mod', 'download', '-json', `${modulePath}@${version}`)) as { Dir: string }).Dir
  } catch (error) {
    // The go command unpacks a module that asks for a newer Go all the same, and nothing is built here.
    const folder = join(go('env', 'GOMODCACHE').trim(), `${modulePath}@${version}`)
    if (existsSync(folder)) return folder
    throw error
  }
}

function vectorsBelow(root: string): Vector[] {
  return globSync('*/*/health_test.yaml', { cwd: root }).flatMap((file) => {
    const { tests } = parse(readFileSync(join(root, file), 'utf8')) as { tests: readonly ArgoTest[] }
    return tests.flatMap(({ inputPath, healthStatus }) => {
      if (!inputPath) return []
      const name = join(dirname(file), inputPath)
      const [document] = parseAllDocuments(readFileSync(join(root, name), 'utf8'))
      const { status, message = '' } = healthStatus
      return [{ name, object: document?.toJS() as KubernetesObject, expect: { status, text: message } }]
    })
  })
}

interface ArgoTest {
  /** undefined in some, which test nothing */
  readonly inputPath?: string
  readonly healthStatus: { readonly status: string; readonly message?: string }
}
