import type { Count, OutputKind } from '../command/output.ts'

/**
 * Agents of the directory file.
 *
 * @command kas agent list
 */
export interface AgentList extends OutputKind<'AgentList'> {
  /** agents, in the order of the file */
  readonly items: readonly AgentSummary[]
}

/** An agent in a list. */
export interface AgentSummary {
  /** number of the agent */
  readonly id: Count
  /** name of the agent */
  readonly name: string
  /** path of the project that configures it */
  readonly project: string
  /** number of its tokens */
  readonly tokenCount: Count
}

/**
 * An agent of the directory file.
 *
 * @command kas agent show
 */
export interface Agent extends OutputKind<'Agent'> {
  /** number of the agent */
  readonly id: Count
  /** name of the agent */
  readonly name: string
  /** path of the project that configures it */
  readonly project: string
  /** paths of other projects that it may read */
  readonly reads: readonly string[]
  /** its tokens, without their secrets */
  readonly tokens: readonly TokenDescription[]
}

/**
 * Users of the directory file.
 *
 * @command kas user list
 */
export interface UserList extends OutputKind<'UserList'> {
  /** users, in the order of the file */
  readonly items: readonly UserSummary[]
}

/** A user in a list. */
export interface UserSummary {
  /** number of the user */
  readonly id: Count
  /** user name */
  readonly name: string
  /** roles, each as `PATH=ROLE` of a project or group, such as `platform/clusters=developer` */
  readonly roles: readonly string[]
  /** number of tokens of the user */
  readonly tokenCount: Count
}

/**
 * A user of the directory file.
 *
 * @command kas user show
 */
export interface User extends OutputKind<'User'> {
  /** number of the user */
  readonly id: Count
  /** user name */
  readonly name: string
  /** roles, each as `PATH=ROLE` of a project or group */
  readonly roles: readonly string[]
  /** tokens of the user, without their secrets */
  readonly tokens: readonly TokenDescription[]
}

/**
 * Tokens of agents, users and CI jobs in the directory file.
 *
 * @command kas token list
 */
export interface TokenList extends OutputKind<'TokenList'> {
  /** tokens, without their secrets */
  readonly items: readonly TokenDescription[]
}

/**
 * A token of the directory file.
 *
 * @command kas token show
 */
export interface Token extends OutputKind<'Token'>, TokenDescription {}

/** A token without its secret. */
export interface TokenDescription {
  /** type of the owner */
  readonly ownerKind: 'agent' | 'user' | 'job'
  /** name of the agent or user, or number of the job */
  readonly owner: string
  /** name of the token; a job's token has none */
  readonly name?: string | undefined
  /** SHA-256 of the secret, in hexadecimal */
  readonly sha256: string
  /** expiry of the token, as written in the file; absent: the token does not expire */
  readonly expires?: string | undefined
}
