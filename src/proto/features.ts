import type { Metadata } from '../call/call.ts'

/** Metadata by which our kas and our agentk tell what they can beyond stock ones: names with commas between them. */
export const featuresKey = 'kas-features'

export function hasFeature(metadata: Metadata, feature: string): boolean {
  return metadata[featuresKey]?.[0]?.split(',').includes(feature) ?? false
}
