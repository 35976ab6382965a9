import type { Caller } from './callers.ts'
import { asRecord } from './kube-object.ts'
import { apiVersionOf, type Resource } from './resources.ts'

/**
 * Answers `kubectl auth whoami` and `kubectl auth can-i`: the caller's identity, and that the double allows everything.
 */
export function answerReview(resource: Resource, caller: Caller, body: unknown): Record<string, unknown> {
  const metadata = { creationTimestamp: null }
  const head = { kind: resource.kind, apiVersion: apiVersionOf(resource), metadata }
  switch (resource.kind) {
    case 'SelfSubjectReview': {
      const { username, uid, groups, extra } = caller
      return { ...head, status: { userInfo: { username, groups, extra, ...(uid ? { uid } : {}) } } }
    }
    case 'SelfSubjectAccessReview': {
      const reason = `the API double allows everything, also to ${JSON.stringify(caller.username)}`
      return { ...head, spec: asRecord(body)?.spec ?? {}, status: { allowed: true, reason } }
    }
    default: {
      const rule = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] }
      return {
        ...head,
        spec: asRecord(body)?.spec ?? {},
        status: { resourceRules: [rule], nonResourceRules: [], incomplete: false },
      }
    }
  }
}
