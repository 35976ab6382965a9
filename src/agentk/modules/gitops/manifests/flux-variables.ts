import { keyName } from '../../../../kubernetes/key.ts'
import { entryAt, type KubernetesObject } from '../../../../kubernetes/object.ts'
import { type Manifest, mayHaveText } from './manifest.ts'
import { isSecret } from './secrets.ts'

/** Variables of Flux's `postBuild`: `${name}`, `${name:=default}` and others. */
const variable = /\$\{[A-Za-z_][A-Za-z0-9_]{0,62}(?:[-:=?+#%/,^][^}]{0,200})?\}/
/** Label or annotation with which Flux leaves the variables of an object alone. */
const substitute = 'kustomize.toolkit.fluxcd.io/substitute'
/** Fields in which a shell replaces variables, not Flux. */
const shellFields: ReadonlySet<string> = new Set(['command', 'args'])
/** Longest value that is read. A longer one, or one with several lines, is a script or a file. Characters */
const maxValueLength = 500
/** Limit of objects that are read. */
const maxRead = 500
/** Limit of objects in a note. */
const maxNamed = 5

/** @returns a note about objects of the commit with variables that Flux would replace; empty: there are none */
export function variableNotes(manifests: readonly Manifest[]): string[] {
  const candidates = manifests.filter((manifest) => mayHaveVariable(manifest)).slice(0, maxRead)
  const found = candidates.flatMap((manifest) => {
    const name = variableIn(manifest)
    return name === undefined ? [] : [`${keyName(manifest.key)}${name === '' ? '' : ` (${name})`}`]
  })
  if (found.length === 0) return []
  const more = found.length - maxNamed
  const named = found.slice(0, maxNamed).join(', ') + (more > 0 ? ` and ${more} more objects` : '')
  const advice = `write the values, or ${substitute}: disabled on an object that is meant so`
  return [`variables as of Flux's postBuild are not replaced in ${named}: ${advice}`]
}

/** A Secret's data is encoded, and may contain one. */
function mayHaveVariable(manifest: Manifest): boolean {
  return isSecret(manifest.key) || mayHaveText(manifest, '${')
}

/** @returns the variable; empty: it is in a Secret, of which no values are shown; undefined: none */
function variableIn({ key, object }: Manifest): string | undefined {
  if (isDisabled(object)) return undefined
  const { data, ...others } = object
  if (!isSecret(key)) return variableOf(others) ?? variableOf(data)
  const values = Object.values((data ?? {}) as object).map((value) => Buffer.from(String(value), 'base64').toString())
  return variableOf([others, values]) === undefined ? undefined : ''
}

function isDisabled(object: KubernetesObject): boolean {
  return ['annotations', 'labels'].some((place) => entryAt(object, `metadata.${place}`, substitute) === 'disabled')
}

/** Returns the first variable in the values of a tree. */
function variableOf(tree: unknown): string | undefined {
  const left: unknown[] = [tree]
  for (let value = left.pop(); left.length > 0 || value !== undefined; value = left.pop()) {
    if (typeof value === 'string') {
      const isText = value.length <= maxValueLength && !value.includes('\n')
      const [found] = (isText && variable.exec(value)) || []
      if (found !== undefined) return found
    } else if (typeof value === 'object' && value !== null) {
      for (const [name, child] of Object.entries(value)) if (!shellFields.has(name)) left.push(child ?? '')
    }
  }
  return undefined
}
