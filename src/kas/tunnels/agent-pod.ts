import type { Metadata } from '../../call/call.ts'
import { hasFeature } from '../../proto/features.ts'

/** What our agentk tells of itself in the metadata of each Connect. */
export interface AgentPod {
  readonly name: string
  readonly role: 'home' | 'standby'
}

/** a pod's name in Kubernetes */
const podNamePattern = /^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/

/** @returns undefined for an agent that does not say that it understands where kas wants it: any stock agent */
export function readAgentPod(metadata: Metadata): AgentPod | undefined {
  if (!hasFeature(metadata, 'home')) return undefined
  const name = metadata['kas-pod']?.[0] ?? ''
  if (!podNamePattern.test(name)) return undefined
  return { name, role: metadata['kas-role']?.[0] === 'standby' ? 'standby' : 'home' }
}

/** The agent goes on with a tunnel after its call, if kas says that it does too. */
export function reusesTunnels(metadata: Metadata): boolean {
  return hasFeature(metadata, 'reuse')
}
