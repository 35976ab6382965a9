import { wireSection } from './row.ts'

/** What agents follow: their configuration and pushes; and their own requests to GitLab. */

export const configurationStreamRows = wireSection('Agents’ configuration', [
  ['stream.first', 'W 2.9', 'defined', 'the configuration of the newest commit is sent at once, with its commit id'],
  [
    'stream.each-commit',
    'W 2.9',
    'defined',
    'then each new commit, also if the file did not change; not the one that the agent has',
  ],
  [
    'stream.filled',
    'W 1.5',
    'defined',
    '`agent_id`, `project_id`, `project_path`, `gitlab_external_url` are filled in',
  ],
  ['stream.user-access', 'W 1.5', 'defined', '`user_access` is never sent to agents'],
  ['stream.absent-file', 'W 2.9', 'defined', 'an absent file is an empty configuration, sent and posted'],
  ['stream.empty-repository', 'W 2.9', 'defined', 'an empty repository is waited for'],
  ['stream.gitaly-away', 'W 2.9', 'defined', 'a Gitaly that fails is waited for, nothing is sent'],
  ['error.stream.ref', 'W 2.9', 'defined', 'no such branch: NOT_FOUND'],
  ['error.stream.user', 'W 2.9', 'defined', 'a mistake in the file: FAILED_PRECONDITION, text begins `Config: `'],
  ['error.stream.size', 'W 2.9', 'defined', 'a file over `max_configuration_file_size`: the same'],
  ['stream.revoked', 'W 2.9', 'defined', 'a token that is revoked ends the stream with the code of its refusal'],
  ['stream.age', 'W 2.9', 'defined', 'at its connection’s age the stream ends with OK'],
  ['stream.poke', 'W 2.9, G 9.5 no. 43', 'defined', 'GitPushEvent at any replica makes it look at once'],
  ['agentk.stream.commit', 'W 2.9', 'defined', 'agentk asks with the last commit that it applied'],
  ['agentk.stream.identity', 'W 1.5', 'defined', 'agentk drops a configuration with another agent id or external URL'],
  ['agentk.stream.commit-id', 'W 1.5', 'defined', 'agentk refuses a response without a commit id'],
])

export const fluxRows = wireSection('Pushes, for Flux', [
  [
    'flux.notice',
    'W 1.9',
    'defined',
    'one message for each push to a project that the agent named, others are not told',
  ],
  ['flux.access', 'W 1.9', 'defined', 'only of projects that it may read by `verify_project_access`'],
  ['flux.id', 'W 1.9', 'defined', 'a project id that is empty: INVALID_ARGUMENT'],
  ['flux.age', 'W 1.9', 'defined', 'the stream ends with OK at its connection’s age'],
  ['flux.bound', 'W 1.9', 'defined', 'notices that wait are bounded, what is left out is counted'],
])

export const gitlabAccessRows = wireSection('Agents’ own requests to GitLab', [
  ['access.answer', 'W 1.8', 'defined', 'header, data, trailer of the answer as it comes'],
  ['access.failure', 'W 1.8', 'defined', 'GitLab cannot be asked: UNAVAILABLE, text begins `gRPC -> HTTP: `'],
])

export const gitalyRows = wireSection('Gitaly', [
  [
    'gitaly.InfoRefsUploadPack',
    'W 1.20',
    'defined',
    '`gitaly.SmartHTTPService/InfoRefsUploadPack`, with `repository` alone',
  ],
  ['gitaly.TreeEntry', 'W 1.20', 'defined', '`gitaly.CommitService/TreeEntry`, with `max_size`'],
  ['gitaly.GetTreeEntries', 'W 1.20', 'defined', '`gitaly.CommitService/GetTreeEntries`'],
  [
    'gitaly.token',
    'W 1.20',
    'defined',
    '`authorization: Bearer v2.<hex hmac-sha256(token, seconds)>.<seconds>`, none without a token',
  ],
  ['gitaly.features', 'W 1.20, G 9.1 no. 15', 'defined', 'features of agent_info as metadata'],
  ['gitaly.address.unix', 'W 1.20', 'defined', '`unix:<path>` and `unix://<path>`'],
  ['gitaly.address.tcp', 'W 1.20', 'defined', '`tcp://<host>:<port>`'],
  ['gitaly.address.tls', 'W 1.20', 'defined', '`tls://<host>:<port>`'],
  ['gitaly.address.dns', 'W 1.20', 'unsure', '`dns:<host>:<port>`, `dns://<server>/<host>:<port>`'],
])
