import type { SourceBlock } from './schema.ts'

/** Returns the paths of a source's files: those of its block, or the default ones of its kind. */
export function sourcePaths({ paths, kustomize, helm }: SourceBlock): NonNullable<SourceBlock['paths']> {
  return paths?.length ? paths : [{ glob: kustomize || helm ? '**/*' : '**/*.{yaml,yml,json}' }]
}
