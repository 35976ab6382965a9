import type { SourceOptions } from './source-options.ts'

/** What of which branch becomes manifests, and where; and whether what leaves goes. Another tag is a deployment. */
export function chosenBy({ ref, paths, kustomize, helm, defaultNamespace, prune }: SourceOptions): string {
  const branch = ref?.tag || ref?.commit ? null : (ref?.branch ?? '')
  return JSON.stringify([branch, paths, kustomize, helm, defaultNamespace, prune])
}

/** `options`, but for what `chosenBy` compares. */
export function withChoiceOf(before: SourceOptions, options: SourceOptions): SourceOptions {
  const { ref: _ref, kustomize: _kustomize, helm: _helm, ...others } = options
  const { ref, paths, kustomize, helm, defaultNamespace, prune } = before
  const optional = { ...(ref && { ref }), ...(kustomize && { kustomize }), ...(helm && { helm }) }
  return { ...others, ...optional, paths, defaultNamespace, prune }
}
