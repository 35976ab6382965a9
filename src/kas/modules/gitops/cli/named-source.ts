import { didYouMean } from '../../../../lib/nearest-name.ts'
import type { ShownSource } from './state.ts'
import { nameOf } from './status-text.ts'

/** Finds a source by its id, or by its name in `kas gitops status`. */
export function sourceCalled(sources: readonly ShownSource[], name: string): ShownSource | undefined {
  return sources.find(({ source }) => source === name) ?? sources.find((each) => nameOf(each) === name)
}

/** @throws Error that names the sources that are known */
export function requireSource(sources: readonly ShownSource[], name: string): ShownSource {
  const source = sourceCalled(sources, name)
  if (source) return source
  const near = didYouMean(name, sources.map(nameOf))
  throw new Error(`no source ${name} is known: kas gitops status shows those that are${near}`)
}

/**
 * Path of the object that people annotate: a GitSync, or a ConfigMap if that kind is not installed. An agent may report
 * any text, and the command patches this path as its caller.
 */
const objectForm =
  /^\/(?:apis\/agent\.gitlab\.com\/v1|api\/v1)\/namespaces\/[a-z0-9-]{1,63}\/(?:gitsyncs|configmaps)\/[a-z0-9.-]{1,253}$/

/** @throws Error: agentk has not reported the object yet, or reports something else */
export function objectOf(source: ShownSource, name: string): string {
  const { object = '' } = source
  if (object === '') throw new Error(`agentk has not named the object of ${name} yet: try again`)
  if (!objectForm.test(object))
    throw new Error(`agentk reports an object of ${name} that is no GitSync and no ConfigMap`)
  return object
}
