import type { KasHost, KasModule } from '../../module.ts'
import { KnownTokens } from './known-tokens.ts'

/** Replicas send one another what GitLab said of agents' tokens. @returns undefined: each knows it by itself */
export function createKnownTokens({ gitlab, peers, clock }: KasHost): KasModule | undefined {
  if (!gitlab) return undefined
  const knownTokens = new KnownTokens({ answers: gitlab.tokenAnswers, peers, clock })
  return { name: 'known tokens', replicaMethods: knownTokens.replicaMethods, services: [knownTokens] }
}
