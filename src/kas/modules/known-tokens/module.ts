import type { KasHost, KasModule } from '../../module.ts'
import { KnownTokens } from './known-tokens.ts'

/** Replicas send one another what GitLab said of agents' tokens. @returns undefined: each knows it by itself */
export function createKnownTokens({ directory, peers, clock }: KasHost): KasModule | undefined {
  const { tokenAnswers: answers } = directory
  if (!answers) return undefined
  const knownTokens = new KnownTokens({ answers, peers, clock })
  return { name: 'known tokens', replicaMethods: knownTokens.replicaMethods, services: [knownTokens] }
}
